package mix

// media are programs that draw, set and encode.
func media() []Program {
	const video = `-f lavfi -i testsrc2=size=1280x720:rate=30 -f lavfi -i sine=frequency=440:sample_rate=48000`
	const page = `{
	printf '%%!PS\n/Helvetica findfont 11 scalefont setfont\n'
	for p in $(seq 40); do
		for y in $(seq 60); do printf '%d %d moveto (The quick brown fox %d jumps over the lazy dog %d) show\n' 50 $((790 - y * 12)) $p $y; done
		for r in $(seq 200); do printf 'newpath %d %d %d 0 360 arc 0.%d setgray fill\n' $((r * 37 % 600)) $((r * 91 % 800)) $((r % 30)) $((r % 9 + 1)); done
		printf 'showpage\n'
	done
} >pages.ps
`
	return []Program{
		{Name: "ffmpeg x264", Images: []string{"ffmpeg"},
			Run: `timeout --foreground $((SPAN + 1)) ffmpeg -nostdin -v error -y ` + video + ` -c:v libx264 -preset medium -c:a aac -t 600 out.mkv || true`},
		{Name: "ffmpeg x265", Images: []string{"ffmpeg"},
			Run: `timeout --foreground $((SPAN + 1)) ffmpeg -nostdin -v error -y ` + video + ` -c:v libx265 -x265-params log-level=error -preset fast -c:a aac -t 600 out.mkv || true`},
		{Name: "ImageMagick", Images: []string{"convert-im6.q16"}, Run: `repeat /usr/bin/convert-im6.q16 -size 900x900 plasma:red-blue -blur 0x6 -rotate 31 -resize 70% -colorspace Lab -sharpen 0x2 -quality 90 out.jpg`},
		{Name: "ghostscript", Images: []string{"gs"}, Setup: page, Run: `repeat gs -q -dSAFER -dNOPAUSE -dBATCH -sDEVICE=png16m -r120 -sOutputFile=page%d.png pages.ps`},
	}
}
