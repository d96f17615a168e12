# Burns CPU time: 60 % in hotSixty, 30 % in hotThirty and 10 % in hotTen, which differ in how they are called: through C that calls back, a
# generator, and a method that a class's __init__ calls. Argument: CPU time in seconds.
import sys
import threading
import time

UNIT = 3000


def hotSixty(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003  # line of hotSixty
    return x


def hotThirty(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003  # line of hotThirty
    return x


def hotTen(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003  # line of hotTen
    return x


def callSixty(n):
    return sorted([n], key=lambda n: hotSixty(n))


def generate(n):
    yield hotThirty(n)


def callThirty(n):
    return sum(generate(n))


class Ten(object):
    def __init__(self, n):
        self.x = self.callTen(n)

    def callTen(self, n):
        return hotTen(n)


def rounds(until):
    # Whoever is most behind its share is next: what a loop costs depends on where things lie in memory, too. A turn in which the CPU was
    # elsewhere counts as a short one. Turns are of random lengths, so that none keeps step with the sampling.
    burners = [[callSixty, 6, 0.0], [callThirty, 3, 0.0], [Ten, 1, 0.0]]
    least = 1.0  # seconds an iteration
    random = 1
    now = clock()
    while now < until:
        b = burners[0]
        for other in burners:
            if other[2] * b[1] < b[2] * other[1]:
                b = other
        random = (random * 1103515245 + 12345) % 2147483648
        n = UNIT // 5 + random // 65536 % (3 * UNIT)
        b[0](n)
        before, now = now, clock()
        least = min(least, (now - before) / n)
        b[2] += now - before if now - before < 4 * least * n else least * n


clock = getattr(time, 'process_time', None) or time.clock


def main(argv):
    print('READY')
    sys.stdout.flush()
    until = float(argv[1])
    if len(argv) > 2:  # in threads, too
        threads = [threading.Thread(target=rounds, args=(until,)) for _ in range(int(argv[2]))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    else:
        rounds(until)


main(sys.argv)
