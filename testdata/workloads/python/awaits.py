# Burns CPU time in coroutines, some 60 % in hotSixty and 40 % in hotForty, each behind a chain of awaits in a task of its own: coroutines that await
# others, and an asynchronous generator. Argument: CPU time in seconds.
import asyncio
import sys
import time


def length(mean):  # of turns, random, so that none keeps step with the sampling
    global last
    last = (last * 1103515245 + 12345) % 2147483648
    return mean // 5 + last // 65536 % (8 * mean // 5)


async def hotSixty(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003
    return x


def hotForty(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003
    return x


async def inner(n):
    return await hotSixty(n) + 1


class Outer(object):
    async def call(self, n):
        return await inner(n) + 1


async def generate(n):
    for i in range(3):
        yield hotForty(length(n))
        await asyncio.sleep(0)


async def consume(n):
    sum = 0
    async for x in generate(n):
        sum += x
    return sum


async def sixty(end):
    while time.process_time() < end:
        await Outer().call(length(9000))
        await asyncio.sleep(0)


async def forty(end):
    while time.process_time() < end:
        await consume(6000)


async def both(end):
    await asyncio.gather(sixty(end), forty(end))


last = 1
print('READY')
sys.stdout.flush()
loop = asyncio.new_event_loop()
loop.run_until_complete(both(float(sys.argv[1])))
