// SPDX-License-Identifier: GPL-2.0
/* capdrop COMMAND...: run it without CAP_BPF and CAP_SYS_ADMIN */
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	prctl(PR_CAPBSET_DROP, 39, 0, 0, 0);
	prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0);
	syscall(SYS_capget, &h, d);
	d[1].effective &= ~(1u << 7);
	d[1].permitted &= ~(1u << 7);
	d[0].effective &= ~(1u << CAP_SYS_ADMIN);
	d[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	d[0].inheritable = d[1].inheritable = 0;
	if (syscall(SYS_capset, &h, d))
		perror("capset");
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
