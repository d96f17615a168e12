package mix

// languages are interpreters, and runtimes that make code. Of all of them the native stack is what counts here.
func languages() []Program {
	return []Program{
		{Name: "python3", Images: []string{"python3.11", "python3.12", "python3.13"}, Run: `repeat /usr/bin/python3 -c '
import json, re, random, collections, hashlib, zlib
r = random.Random(1)
d = [{"id": i, "name": "n%d" % r.randrange(1000), "v": [r.random() for _ in range(6)]} for i in range(20000)]
s = json.dumps(d); e = json.loads(s); c = collections.Counter(re.findall(r"n\d+", s))
e.sort(key=lambda x: (x["name"], x["v"])); hashlib.sha256(zlib.compress(s.encode())).hexdigest()
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(22); c.most_common(5)'`},
		{Name: "perl", Images: []string{"perl"}, Run: `repeat perl -e '
my %h; for my $i (1..200000) { my $s = "key" . ($i * 7919 % 10007); $h{$s} .= chr(65 + $i % 26); }
my $n = 0; for my $k (sort { length($h{$a}) <=> length($h{$b}) || $a cmp $b } keys %h) { $n++ while $h{$k} =~ /([A-M]+)[N-Z]/g; }
print join(",", map { sprintf "%.2f", sqrt $_ } 1..20000), $n;' >/dev/null`},
		{Name: "ruby", Images: []string{"ruby3.1", "ruby3.3", "ruby"}, Run: `repeat ruby -e '
h = Hash.new { |x, k| x[k] = [] }
200_000.times { |i| h["k#{i * 7919 % 10007}"] << i.to_s(7) }
a = h.map { |k, v| [k, v.map(&:to_i).sum, v.join.scan(/1[0-3]+/).size] }.sort_by { |x| [x[2], x[0]] }
def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
fib(24); a.inspect.size'`},
		{Name: "php", Images: []string{"php8.2", "php8.4", "php"}, Run: `repeat php -d opcache.enable_cli=0 -r '
$h = []; for ($i = 0; $i < 300000; $i++) { $h["k" . ($i * 7919 % 10007)][] = base_convert((string)$i, 10, 7); }
uksort($h, fn($a, $b) => strlen($a) <=> strlen($b) ?: strcmp($a, $b)); $n = 0;
foreach ($h as $k => $v) { $n += preg_match_all("/1[0-3]+/", implode(",", $v)); sort($v); }
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } fib(25); strlen(serialize($h)) + $n;'`},
		{Name: "node", Images: []string{"node"}, JIT: true, Run: `repeat node -e '
const d = []; for (let i = 0; i < 60000; i++) d.push({id: i, name: "n" + i * 7919 % 1009, v: [i / 3, i / 7]});
const s = JSON.stringify(d), e = JSON.parse(s); e.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id);
const m = new Map(); for (const x of e) m.set(x.name, (m.get(x.name) || 0) + x.v[0]);
const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2); fib(30); s.replace(/n\d+/g, x => x.length); require("crypto").createHash("sha256").update(s).digest("hex")'`},
		{Name: "luajit", Images: []string{"luajit", "luajit-2.1.0-beta3"}, JIT: true, Run: `repeat luajit -e '
local t = {} for i = 1, 200000 do t[i] = tostring(i * 7919 % 100003) end table.sort(t)
local s = table.concat(t, ",") local n = 0 for w in s:gmatch("1%d+") do n = n + #w end
local a = {} for i = 1, 2000000 do a[i % 1000] = (a[i % 1000] or 0) + i * 0.5 end'`},
		{Name: "java", Images: []string{"java"}, JIT: true, Setup: `cat >Work.java <<'END'
import java.util.*; import java.util.stream.*;
public class Work { static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
  public static void main(String[] a) { long end = System.nanoTime() + Long.parseLong(a[0]) * 1_000_000_000L; long n = 0;
    while (System.nanoTime() < end) { Map<String, List<Integer>> m = IntStream.range(0, 50000).boxed().collect(Collectors.groupingBy(i -> "k" + i * 7919 % 1009));
      n += m.entrySet().stream().sorted(Map.Entry.comparingByKey()).mapToInt(e -> e.getValue().stream().mapToInt(x -> x).sum()).sum() + fib(20); }
    System.out.println(n); } }
END
javac Work.java`, Run: `java -XX:ActiveProcessorCount=2 -Xmx256m Work "$SPAN" >/dev/null`},
		{Name: "bash", Images: []string{"bash"}, Run: `repeat bash -c '
declare -A m; for ((i = 0; i < 30000; i++)); do k=k$((i * 7919 % 1009)); m[$k]+="${i:0:2},"; done
for k in "${!m[@]}"; do v=${m[$k]//,/ }; [[ $v =~ ([0-9]+)\ 1 ]] && n=$((n + ${#BASH_REMATCH[1]})); done; printf "%s" "${m[@]}"' >/dev/null`},
	}
}
