module wasmtime

go 1.18

require github.com/bytecodealliance/wasmtime-go/v37 v37.0.0
