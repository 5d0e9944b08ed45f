int fork_value(void)
{
	return 2;
}
