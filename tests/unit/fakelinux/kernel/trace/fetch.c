int fetch_0(void)
{
	return 0;
}

int fetch_1(void)
{
	return 1;
}

int fetch_2(void)
{
	return 2;
}

int fetch_3(void)
{
	return 3;
}

int fetch_4(void)
{
	return 4;
}

int fetch_5(void)
{
	return 5;
}

int fetch_6(void)
{
	return 6;
}

int fetch_7(void)
{
	return 7;
}

int fetch_8(void)
{
	return 8;
}

int fetch_9(void)
{
	return 9;
}

int fetch_10(void)
{
	return 10;
}

int fetch_11(void)
{
	return 11;
}
