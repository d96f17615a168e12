package mix

// data are programs that search, pack, move and check data.
func data() []Program {
	const text = `words 60000000 >text`
	return []Program{
		{Name: "git", Images: []string{"git"}, Setup: repository, Run: `cd repository
work() { git log -p --stat --all >/dev/null; git repack -adfq --window=50 --depth=50; git grep -c 'line 7' HEAD >/dev/null; }
repeat work`},
		{Name: "sqlite3", Images: []string{"sqlite3"}, Run: `work() { rm -f a.db; sqlite3 a.db <<'END' >/dev/null
PRAGMA synchronous = off;
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200000) INSERT INTO t SELECT i, printf('name %d', i * 7919 % 200003), i * 31 % 1000 FROM c;
CREATE INDEX names ON t (name);
SELECT n, count(*), max(name), group_concat(substr(name, 1, 3)) FROM t GROUP BY n ORDER BY 2 DESC, 1;
SELECT count(*) FROM t a JOIN t b ON a.name = b.name WHERE a.n < b.n + 3 AND a.name LIKE '%7%';
UPDATE t SET name = upper(name) WHERE n % 3 = 0;
END
}
repeat work`},
		{Name: "openssl", Images: []string{"openssl"},
			Run: `for what in '-bytes 8192 sha256' '-bytes 8192 -evp aes-256-gcm' '-bytes 8192 -evp chacha20-poly1305' rsa2048 ecdsap256 ecdhx25519; do openssl speed -seconds $((SPAN / 5 + 1)) $what >/dev/null 2>&1; done`},
		{Name: "gpg", Images: []string{"gpg"}, Setup: text + `
mkdir -m 700 .gnupg`, Run: `export GNUPGHOME=$PWD/.gnupg
work() { gpg --batch --yes --quiet --pinentry-mode loopback --passphrase secret --s2k-count 65011712 -o out -c text; gpg --batch --print-md SHA3-512 text 2>/dev/null >/dev/null || gpg --batch --print-md SHA512 text >/dev/null; }
repeat work
gpgconf --kill gpg-agent || true`},
		{Name: "xz", Images: []string{"xz"}, Setup: text, Run: `repeat sh -c 'xz -4 -T2 -c text >text.xz && xz -dc text.xz >/dev/null'`},
		{Name: "zstd", Images: []string{"zstd"}, Setup: text, Run: `repeat sh -c 'zstd -q -f -9 text -o text.zst && zstd -q -t text.zst'`},
		{Name: "gzip", Images: []string{"gzip"}, Setup: text, Run: `repeat sh -c 'gzip -c text >text.gz && gzip -t text.gz'`},
		{Name: "bzip2", Images: []string{"bzip2"}, Setup: `words 15000000 >text`, Run: `repeat sh -c 'bzip2 -c text >text.bz2 && bzip2 -t text.bz2'`},
		{Name: "7zip", Images: []string{"7zz", "7z", "7za"}, Setup: `words 20000000 >text`,
			Run: `repeat sh -c 'rm -f a.7z; 7zz a -mx=5 a.7z text >/dev/null && 7zz t a.7z >/dev/null'`},
		{Name: "rsync", Images: []string{"rsync"}, Setup: text + `
mkdir from && split -b 500000 text from/part`, Run: `work() { rm -rf to; rsync -az from/ to; for f in to/*; do printf x >>"$f"; done; rsync -ac --no-whole-file --inplace from/ to; }
repeat work`},
	}
}

// repository makes a repository with some history.
const repository = `mkdir repository && cd repository && git init -q -b main . && git config gc.auto 0
awk 'BEGIN {
	for (c = 1; c <= 600; c++) {
		printf "commit refs/heads/main\ncommitter Nobody <nobody@example.com> %d +0000\ndata 8\ncommit\n\n", 1600000000 + c * 60
		for (f = 0; f < 6; f++) {
			text = ""
			for (l = 0; l < 400; l++) text = text "line " l " of file " f ((l * 7 + c) % 50 == f ? " changed in " c : "") "\n"
			printf "M 100644 inline dir%d/file%d\ndata %d\n%s\n", (c + f) % 13, f, length(text), text
		}
	}
}' | git fast-import --quiet`
