# Compresses in two threads at a time, without the GIL all the while. Argument: CPU time in seconds.
import os
import sys
import threading
import time
import zlib

DATA = os.urandom(1 << 14) * 64


def compress():
    return zlib.compress(DATA, 9)


def work(until):
    while time.process_time() < until:
        compress()


print('READY')
sys.stdout.flush()
threads = [threading.Thread(target=work, args=(float(sys.argv[1]),)) for _ in range(2)]
for t in threads:
    t.start()
for t in threads:
    t.join()
