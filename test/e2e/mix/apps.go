package mix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hostprofiles/hostprofiles/test/e2e/workloads"
)

// Modules has what the applications take from npm, where their scripts look for it: the environment says where.
func Modules() error {
	root, err := workloads.ModuleRoot()
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "applications.sh"))
	cmd.Stderr = os.Stderr
	modules, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("fetching modules of npm: %w", err)
	}
	return os.Setenv("NODE_MODULES", strings.TrimSpace(string(modules)))
}

// Applications are programs in the languages whose functions are named, as people run them: servers under load, and tools.
func Applications() []Program {
	python := []string{"python3.11", "python3.12", "python3.13", "uwsgi-core"} // of Debian's
	return []Program{
		{Name: "Django in gunicorn", Images: python, Setup: django, Run: `
gunicorn --workers 2 --bind "127.0.0.1:$PORT" app:application >/dev/null 2>&1 &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c8 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/items/7" >/dev/null`},
		{Name: "Django in uwsgi", Images: python, Setup: django, Run: `
uwsgi --plugin python3 --http-socket "127.0.0.1:$PORT" --wsgi-file app.py --processes 2 --threads 2 --enable-threads >/dev/null 2>&1 &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c8 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/items/7" >/dev/null`},
		{Name: "asyncio", Images: python, Setup: `cat >server.py <<'END'
import asyncio, json, sys

async def item(n):
    await asyncio.sleep(0)
    return {"id": n, "name": "n%d" % (n * 7919 % 1009), "squares": [i * i for i in range(n % 50)]}

async def body():
    return json.dumps([await item(i) for i in range(40)]).encode()

async def answer(reader, writer):
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            b = await body()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(b) + b)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]))
    async with server:
        await server.serve_forever()

asyncio.run(main())
END`, Run: `/usr/bin/python3 server.py "$PORT" &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c8 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/" >/dev/null`},
		{Name: "numpy", Images: python, Run: `/usr/bin/python3 -c '
import sys, time
import numpy as np
r = np.random.default_rng(1)
def step(a):
    return np.sort(np.tanh(a @ a.T / len(a)), axis=1)
def rounds(n):
    a = r.random((300, 300))
    for _ in range(n):
        a = step(a) + r.normal(size=a.shape)
    return np.linalg.svd(a)[1].sum()
end = time.monotonic() + int(sys.argv[1])
while time.monotonic() < end:
    rounds(5)' $SPAN`},
		{Name: "express", Images: []string{"node"}, JIT: true, Setup: `cat >server.js <<'END'
const express = require('express'), app = express();
app.use(express.json());
app.get('/items/:id', (req, res) => {
	const items = [];
	for (let i = 0; i < 200; i++) items.push({ id: i, name: 'n' + i * 7919 % 1009, of: req.params.id });
	items.sort((a, b) => a.name < b.name ? -1 : 1);
	res.json(items.filter(x => /n[0-9]*7/.test(x.name)));
});
app.listen(+process.argv[2], '127.0.0.1');
END`, Run: `NODE_PATH=$NODE_MODULES node server.js "$PORT" &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c8 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/items/7" >/dev/null`},
		{Name: "tsc", Images: []string{"node"}, JIT: true, Setup: `{
	for i in $(seq 400); do
		echo "export interface T$i<A extends string> { a: A; b: { [K in A]: number }; next?: T$i<A>; }
		export function f$i<A extends string>(t: T$i<A>, k: keyof T$i<A>): number { const r = [t.a].map(x => x.length); return r.reduce((p, c) => p + c * $i, 0) + String(k).length; }
		export class C$i<A extends string> implements T$i<A> { constructor(public a: A, public b: { [K in A]: number }) {} get(): number { return f$i(this, 'a'); } }"
	done
} >many.ts
for i in 1 2 3; do cp many.ts many$i.ts; done`, Run: `repeat node "$NODE_MODULES/typescript/lib/tsc.js" --strict --target es2020 --outDir out many*.ts`},
		{Name: "javac", Images: []string{"java", "javac"}, JIT: true, Setup: `mkdir src
for i in $(seq 300); do
	echo "import java.util.*; import java.util.function.*; import java.util.stream.*;
	public class C$i<T extends Comparable<T>> { final Map<T, List<T>> m = new TreeMap<>();
	int f(List<T> l) { return l.stream().collect(Collectors.groupingBy(x -> x.hashCode() % $i)).entrySet().stream().mapToInt(e -> e.getValue().size()).sum(); }
	<A, B> Function<A, B> g(Function<? super A, ? extends B> h) { return a -> h.apply(a); }
	record R(int a, String b) {} sealed interface S permits X, Y {} record X(R r) implements S {} record Y(int i) implements S {} }" >src/C$i.java
done`, Run: `repeat javac -d out src/*.java`},
		{Name: "netty", Images: []string{"java"}, JIT: true, Setup: `cat >Server.java <<'END'
import io.netty.bootstrap.ServerBootstrap; import io.netty.buffer.Unpooled; import io.netty.channel.*; import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel; import io.netty.channel.socket.nio.NioServerSocketChannel; import io.netty.handler.codec.http.*;
import java.nio.charset.StandardCharsets; import java.util.*; import java.util.stream.*;
public class Server {
  static String body(String uri) { return IntStream.range(0, 200).mapToObj(i -> "n" + i * 7919 % 1009 + uri).sorted().collect(Collectors.joining(",")); }
  public static void main(String[] a) throws Exception {
    EventLoopGroup g = new NioEventLoopGroup(2);
    new ServerBootstrap().group(g).channel(NioServerSocketChannel.class).childHandler(new ChannelInitializer<SocketChannel>() {
      protected void initChannel(SocketChannel c) { c.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(65536), new SimpleChannelInboundHandler<FullHttpRequest>() {
        protected void channelRead0(ChannelHandlerContext x, FullHttpRequest q) {
          FullHttpResponse r = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK, Unpooled.copiedBuffer(body(q.uri()), StandardCharsets.UTF_8));
          r.headers().set("Content-Length", r.content().readableBytes()); x.writeAndFlush(r); } }); } }).bind("127.0.0.1", Integer.parseInt(a[0])).sync().channel().closeFuture().sync(); } }
END
javac -cp "$(echo /usr/share/java/netty*.jar | tr ' ' :)" Server.java`, Run: `java -Xmx256m -cp ".:$(echo /usr/share/java/netty*.jar | tr ' ' :)" Server "$PORT" &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c8 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/items" >/dev/null`},
	}
}

// django is an application with routes, templates, JSON and a database in memory.
const django = `cat >app.py <<'END'
import json
from django.conf import settings
settings.configure(DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"])
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.template import engines
from django.urls import path

def rows(n):
    return [{"id": i, "name": "n%d" % (i * 7919 % 1009), "even": i % 2 == 0} for i in range(n * 20)]

def items(request, n):
    template = engines["django"].from_string("{% for r in rows %}<tr class={% if r.even %}a{% else %}b{% endif %}>{{ r.name|upper }}: {{ r.id }}</tr>{% endfor %}")
    return HttpResponse(template.render({"rows": rows(n)}) + json.dumps(rows(n)))

urlpatterns = [path("items/<int:n>", items)]
application = get_wsgi_application()
END
`
