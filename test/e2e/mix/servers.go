package mix

// servers run under load from this host. They listen on the loopback interface or on sockets in the program's folder.
func servers() []Program {
	return []Program{
		{Name: "nginx", Images: []string{"nginx"}, Setup: `mkdir logs html && words 100000 >html/index.html`, Run: `cat >nginx.conf <<END
daemon off; worker_processes 2; pid $PWD/nginx.pid; error_log $PWD/logs/error.log; user nobody nogroup;
events { worker_connections 512; }
http { access_log $PWD/logs/access.log; gzip on; gzip_types *; client_body_temp_path $PWD/b; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u; scgi_temp_path $PWD/s;
	server { listen 127.0.0.1:$PORT; root $PWD/html; location /back { return 200 "hello"; } location /proxy { proxy_pass http://127.0.0.1:$PORT/back; } } }
END
nginx -p "$PWD" -c "$PWD/nginx.conf" &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c16 -d$((SPAN / 2 + 1)) -H 'Accept-Encoding: gzip' "http://127.0.0.1:$PORT/" >/dev/null
wrk -t1 -c16 -d$((SPAN / 2 + 1)) "http://127.0.0.1:$PORT/proxy" >/dev/null`},
		{Name: "haproxy", Images: []string{"haproxy"}, Run: `cat >haproxy.cfg <<END
global
  nbthread 2
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend a
  bind 127.0.0.1:$PORT
  http-request set-header X-A %[path,upper,sha1,hex]
  acl long path_reg ^/[a-z]+(x|y)*\$
  default_backend b
backend b
  server s 127.0.0.1:$PORT2
frontend c
  bind 127.0.0.1:$PORT2
  http-request return status 200 content-type text/plain string hello
END
haproxy -db -f haproxy.cfg &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
wrk -t1 -c16 -d$((SPAN + 1)) "http://127.0.0.1:$PORT/some/path" >/dev/null`},
		{Name: "PostgreSQL", Images: []string{"postgres"}, Setup: postgres + `$as initdb -D db -A trust -U postgres >/dev/null
$as postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off >log 2>&1 &
server=$!
wait_for pg_isready -h "$PWD"
pgbench -h "$PWD" -U postgres -i -q -s 4 postgres 2>/dev/null
kill -INT $server; wait $server || true`, Run: postgres + `$as postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off >log 2>&1 &
server=$!
wait_for pg_isready -h "$PWD"
echo 'SELECT b.bid, count(*), sum(a.abalance), md5(string_agg(a.filler, $$x$$ ORDER BY a.aid)) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) WHERE a.aid % 7 = 3 GROUP BY b.bid;' >query.sql
pgbench -h "$PWD" -U postgres -n -c 4 -T $((SPAN / 2 + 1)) postgres >/dev/null 2>&1
pgbench -h "$PWD" -U postgres -n -c 2 -T $((SPAN / 2 + 1)) -f query.sql postgres >/dev/null 2>&1
kill -INT $server; wait $server || true`},
		{Name: "redis", Images: []string{"redis-server", "redis-check-rdb", "redis-benchmark"}, Run: `redis-server --port 0 --unixsocket "$PWD/redis" --save '' --daemonize no >/dev/null &
wait_for redis-cli -s "$PWD/redis" ping
for what in set,get,incr lpush,lpop sadd,zadd,hset lrange_100,mset; do
	timeout --foreground $((SPAN / 3 + 1)) redis-benchmark -s "$PWD/redis" -q -n 100000000 -r 100000 -P 8 -t $what >/dev/null || true
done`},
		{Name: "memcached", Images: []string{"memcached"}, Run: `memcached -u nobody -l 127.0.0.1 -p "$PORT" -t 2 &
wait_for bash -c "</dev/tcp/127.0.0.1/$PORT"
repeat memcslap --servers="127.0.0.1:$PORT" --concurrency=4 --execute-number=20000 --initial-load=10000 >/dev/null`},
	}
}

// postgres defines what runs a command of the server's as its own user.
const postgres = `PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH
as="setpriv --reuid=postgres --regid=postgres --clear-groups"
chown postgres .
`
