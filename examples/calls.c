/* Calls whose misses are known by arithmetic: touch(n) stores to n lines of 64 bytes that nobody has touched before. Each kind of call
 * touches another number of them. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAIN __attribute__((noinline, noclone))

static char lines[1024 * 64] __attribute__((aligned(64)));
static char *volatile next = lines;
static jmp_buf caught;

PLAIN void touch(int n)
{
	for (; n > 0; n--) {
		*(volatile char *)next = 1;
		next += 64;
	}
}

PLAIN void recursion(int depth)
{
	touch(1);
	if (depth > 1)
		recursion(depth - 1);
	touch(1);
}

PLAIN void odd(int n);

PLAIN void even(int n)
{
	touch(2);
	if (n > 0)
		odd(n - 1);
	touch(1);
}

PLAIN void odd(int n)
{
	touch(3);
	if (n > 0)
		even(n - 1);
	touch(1);
}

PLAIN void ten(void)
{
	touch(10);
	touch(0);
}

PLAIN void twenty(void)
{
	touch(20);
	touch(0);
}

void (*volatile pointers[])(void) = { ten, twenty, ten };

PLAIN void by_pointer(void)
{
	for (int n = 0; n < 3; n++)
		pointers[n]();
}

PLAIN int tail_last(int n)
{
	touch(n);
	return n + (next != 0);
}

/* It jumps to the other one. */
PLAIN __attribute__((optimize("optimize-sibling-calls"))) int tail_first(int n)
{
	touch(5);
	return tail_last(n);
}

PLAIN void leap(int how)
{
	if (how != 0)
		longjmp(caught, how);
}

PLAIN void thrower(int depth)
{
	touch(4);
	leap(depth == 0);
	if (depth > 0)
		thrower(depth - 1);
	touch(500);
}

PLAIN void catcher(void)
{
	if (setjmp(caught) == 0)
		thrower(2);
	touch(40);
}

static unsigned compared;

PLAIN int compare(const void *a, const void *b)
{
	compared++;
	return *(const int *)a - *(const int *)b;
}

PLAIN void sorter(void)
{
	static int numbers[64];
	for (int n = 0; n < 64; n++)
		numbers[n] = n * 37 % 64;
	qsort(numbers, 64, sizeof numbers[0], compare);
	touch(numbers[63]);
}

int main(void)
{
	recursion(4);
	even(3);
	by_pointer();
	int sum = tail_first(30);
	catcher();
	sorter();
	printf("%u %d\n", compared, sum);
	return 0;
}
