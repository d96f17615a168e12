# cachedir.sh NAME, sourced by scripts that unpack for tests: makes .cache/NAME, sets dir to it, and holds its lock until the script's
# end: several tests may want what is there at a time.
dir=$(dirname "${BASH_SOURCE[0]}")/../.cache/$1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock"
flock 9
