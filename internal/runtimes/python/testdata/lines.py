# Prints, as JSON, tables of lines and what this interpreter itself says of them. Run by hand with every version of CPython:
#	python3.N lines.py > lines/3.N.json
import dis, json, sys

SOURCE = '''
def simple(a):
    return a

def long_lines(a,
               b):
    x = (a +
         b)


    def inner(y):
        return [z * 2 for z in y
                if z]
    try:
        inner(x)
    except (ValueError,
            KeyError) as e:
        raise TypeError from e
    finally:
        x = None
    with open(a) as f, \\
         open(b) as g:
        for line in f:
            if line:
                continue
            while True:
                break
    return x

class C:
    "doc"
    attribute = {
        1: 2,
        3: 4,
    }
    async def coroutine(self, n):
        async for i in self:
            await i
        yield n
    @property
    def lambdas(self): return lambda: (lambda q:
        q)
''' + '\n' * 300 + '''
def far(a):
    x = 1
''' + '\n' * 200 + '''
    return x
def wide(''' + ', '.join('argument_%d' % i for i in range(80)) + '''):
    ''' + ' ' * 300 + '''; return 1
'''
SOURCE = SOURCE.replace(' ' * 300 + '; ', 'pass;' + ' ' * 300)

def codes(c):
    yield c
    for k in c.co_consts:
        if hasattr(k, 'co_code'):
            yield from codes(k)

version = sys.version_info[:2]
out = []
for c in codes(compile(SOURCE, 'sample.py', 'exec')):
    table = c.co_linetable if version >= (3, 10) else c.co_lnotab
    n = len(c.co_code)
    lines = [None] * n
    columns = [None] * n
    if version >= (3, 10):
        for start, end, line in c.co_lines():
            for i in range(start, end):
                lines[i] = line
    else:
        starts = sorted(dis.findlinestarts(c))
        for (start, line), (end, _) in zip(starts, starts[1:] + [(n, 0)]):
            for i in range(start, end):
                lines[i] = line
        first = starts[0][0] if starts else n
        for i in range(first):
            lines[i] = c.co_firstlineno
    if version >= (3, 11):
        for i, p in enumerate(c.co_positions()):
            for k in range(2 * i, 2 * i + 2):
                columns[k] = p[2]
    out.append({
        'name': getattr(c, 'co_qualname', c.co_name), 'first': c.co_firstlineno, 'table': table.hex(),
        'lines': lines[::2], 'columns': columns[::2],
    })
json.dump({'version': list(version), 'codes': out}, sys.stdout, separators=(',', ':'))
print()
