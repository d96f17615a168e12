// nothing ends at once: what it takes is taken before main.
int main(void)
{
	return 0;
}
