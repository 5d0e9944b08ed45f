/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM fetcharg_fuzz

#if !defined(_FETCHARG_FUZZ_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _FETCHARG_FUZZ_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(fetcharg_fuzz,
	TP_PROTO(struct fz_data *d, u64 a),
	TP_ARGS(d, a),
	TP_STRUCT__entry(
		__field(u8, fu8) __field(s8, fs8) __field(u16, fu16)
		__field(s16, fs16) __field(u32, fu32) __field(s32, fs32)
		__field(u64, fu64) __field(s64, fs64) __field(void *, fptr)
		__field(void *, fuser)
		__array(char, fchars, 16)
		__field(const char *, fcstr)
		__string(fstr, d->text)
		__rel_string(frel, d->text)
	),
	TP_fast_assign(
		__entry->fu8 = d->u8v; __entry->fs8 = d->s8v;
		__entry->fu16 = d->u16v; __entry->fs16 = d->s16v;
		__entry->fu32 = d->u32v; __entry->fs32 = d->s32v;
		__entry->fu64 = a; __entry->fs64 = d->s64v;
		__entry->fptr = d; __entry->fuser = d->user;
		memcpy(__entry->fchars, "fixed chars", 12);
		__entry->fcstr = d->str;
		__assign_str(fstr);
		__assign_rel_str(frel);
	),
	TP_printk("%u", __entry->fu8)
);
#endif
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE fetcharg_fuzz_trace
#include <trace/define_trace.h>
