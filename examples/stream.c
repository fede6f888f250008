/* Reads one byte of every 32 of an array of 1 MiB that nothing has touched, in a function of its own: on a machine with lines
   of 64 bytes and pages of 4 KiB that is 16384 misses and 256 walks; with lines of 32 bytes, 32768 misses. */
#include <stdint.h>

#define BYTES (1u << 20)

static uint8_t array[BYTES] __attribute__((aligned(4096)));

__attribute__((noinline)) static uint32_t stream(const volatile uint8_t *from)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < BYTES; i += 32)
        sum += from[i];
    return sum;
}

int main(void) { return stream(array) == 0 ? 0 : 1; }
