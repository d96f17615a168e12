// What the generated host runs: call trees as indented text, one frame a line: name | source | weight of its own samples.
// A leading tag changes the frame type, [libfoo.so] the mapping, from there downwards.
export const programs = [
  {
    name: "nginx",
    pids: [812, 813],
    service: "edge",
    container: "a41f0c22d9b7",
    pod: "edge-7d9f",
    threads: ["nginx"],
    type: "native",
    mapping: "nginx",
    load: 0.55,
    tree: `
_start | | 0
  main | src/core/nginx.c:196 | 0
    ngx_master_process_cycle | src/os/unix/ngx_process_cycle.c:73 | 0
      ngx_worker_process_cycle | src/os/unix/ngx_process_cycle.c:699 | 0
        ngx_process_events_and_timers | src/event/ngx_event.c:195 | 1
          ngx_epoll_process_events | src/event/modules/ngx_epoll_module.c:785 | 2
            ngx_http_process_request_line | src/http/ngx_http_request.c:1119 | 2
              ngx_http_process_request_headers | src/http/ngx_http_request.c:1390 | 6
                ngx_http_core_run_phases | src/http/ngx_http_core_module.c:866 | 1
                  ngx_http_gzip_body_filter | src/http/modules/ngx_http_gzip_filter_module.c:303 | 2
                    deflate [libz.so.1] | deflate.c:763 | 9
                      longest_match | deflate.c:1236 | 21
                      crc32_z | crc32.c:545 | 5
                  ngx_http_upstream_init | src/http/ngx_http_upstream.c:512 | 3
                    ngx_http_upstream_connect | src/http/ngx_http_upstream.c:1533 | 2
                  ngx_linux_sendfile_chain | src/os/unix/ngx_linux_sendfile_chain.c:51 | 1
                    sendfile64 [libc.so.6] | sysdeps/unix/syscall-template.S:120 | 1
                      entry_SYSCALL_64_after_hwframe kernel | arch/x86/entry/entry_64.S:130 | 0
                        do_syscall_64 | arch/x86/entry/common.c:89 | 1
                          __x64_sys_sendfile64 | fs/read_write.c:1352 | 0
                            do_splice_direct | fs/splice.c:1201 | 1
                              tcp_sendmsg_locked | net/ipv4/tcp.c:1051 | 5
                                __tcp_transmit_skb | net/ipv4/tcp_output.c:1279 | 3
                                  ip_queue_xmit | net/ipv4/ip_output.c:549 | 2
                                    dev_hard_start_xmit | net/core/dev.c:3634 | 4
                                skb_copy_datagram_from_iter | net/core/datagram.c:542 | 4
            SSL_read [libssl.so.3] | ssl/ssl_lib.c:2289 | 1
              ssl3_read_bytes | ssl/record/rec_layer_s3.c:1274 | 3
                EVP_DecryptUpdate [libcrypto.so.3] | crypto/evp/evp_enc.c:785 | 1
                  aesni_gcm_decrypt | crypto/aes/aesni-gcm-x86_64.s:404 | 14`,
  },
  {
    name: "orders-api",
    pids: [2210],
    service: "orders",
    container: "77c1be09f3aa",
    pod: "orders-5c4b",
    threads: ["orders-api"],
    type: "go",
    mapping: "orders-api",
    load: 1.1,
    tree: `
runtime.goexit | runtime/asm_amd64.s:1693 | 0
  net/http.(*Server).Serve.gowrap3 | net/http/server.go:3454 | 0
    net/http.(*conn).serve | net/http/server.go:2102 | 2
      net/http.serverHandler.ServeHTTP | net/http/server.go:3311 | 0
        go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp.(*middleware).serveHTTP | handler.go:179 | 1
          github.com/acme/orders/internal/http.(*Router).ServeHTTP | internal/http/router.go:88 | 1
            github.com/acme/orders/internal/orders.(*Service).Place | internal/orders/service.go:141 | 3
              github.com/acme/orders/internal/pricing.(*Engine).Quote | internal/pricing/engine.go:57 | 6
                github.com/acme/orders/internal/pricing.(*Rules).match | internal/pricing/rules.go:203 | 18
                  regexp.(*Regexp).doExecute | regexp/exec.go:527 | 4
                    regexp.(*Regexp).backtrack | regexp/backtrack.go:309 | 31
                  strings.ToLower | strings/strings.go:711 | 7
              encoding/json.Unmarshal | encoding/json/decode.go:96 | 1
                encoding/json.(*decodeState).object | encoding/json/decode.go:602 | 9
                  encoding/json.(*decodeState).literalStore | encoding/json/decode.go:864 | 8
                    reflect.Value.SetString | reflect/value.go:2434 | 3
              database/sql.(*DB).QueryContext | database/sql/sql.go:1729 | 1
                github.com/jackc/pgx/v5.(*Conn).Query | pgx/v5@v5.7.1/conn.go:707 | 4
                  internal/poll.(*FD).Write | internal/poll/fd_unix.go:367 | 1
                    syscall.Syscall | syscall/syscall_linux.go:73 | 1
                      entry_SYSCALL_64_after_hwframe kernel | arch/x86/entry/entry_64.S:130 | 0
                        do_syscall_64 | arch/x86/entry/common.c:89 | 1
                          __x64_sys_write | fs/read_write.c:655 | 1
                            sock_write_iter | net/socket.c:1166 | 2
                              tcp_sendmsg | net/ipv4/tcp.c:1303 | 6
  runtime.gcBgMarkWorker | runtime/mgc.go:1412 | 0
    runtime.systemstack | runtime/asm_amd64.s:514 | 0
      runtime.gcDrain | runtime/mgcmark.go:1151 | 8
        runtime.scanobject | runtime/mgcmark.go:1444 | 24
          runtime.findObject | runtime/mbitmap.go:1358 | 11
          runtime.greyobject | runtime/mgcmark.go:1605 | 7
  runtime.mcall | runtime/asm_amd64.s:459 | 0
    runtime.schedule | runtime/proc.go:4144 | 2
      runtime.findRunnable | runtime/proc.go:3389 | 7
        runtime.futex | runtime/sys_linux_amd64.s:557 | 3`,
  },
  {
    name: "java",
    pids: [3057],
    service: "checkout",
    container: "c0ffee5e11aa",
    pod: "checkout-66bd",
    threads: ["http-nio-8080-exec-1", "http-nio-8080-exec-2", "G1 Conc#0", "C2 CompilerThre"],
    type: "jvm",
    mapping: "",
    load: 1.3,
    tree: `
start_thread native [libc.so.6] | nptl/pthread_create.c:444 | 0
  thread_native_entry [libjvm.so] | src/hotspot/os/linux/os_linux.cpp:868 | 0
    JavaThread::thread_main_inner | src/hotspot/share/runtime/javaThread.cpp:774 | 0
      JavaCalls::call_helper | src/hotspot/share/runtime/javaCalls.cpp:415 | 1
        java.lang.Thread.run jvm [] | Thread.java:1583 | 0
          org.apache.tomcat.util.threads.TaskThread$WrappingRunnable.run | TaskThread.java:63 | 0
            org.apache.tomcat.util.net.NioEndpoint$SocketProcessor.doRun | NioEndpoint.java:1741 | 1
              org.apache.coyote.http11.Http11Processor.service | Http11Processor.java:397 | 3
                org.springframework.web.servlet.DispatcherServlet.doDispatch | DispatcherServlet.java:1089 | 2
                  com.acme.checkout.CartController.checkout | CartController.java:74 | 2
                    com.acme.checkout.TaxService.compute | TaxService.java:118 | 7
                      java.math.BigDecimal.divide | BigDecimal.java:1749 | 19
                        java.math.MutableBigInteger.divideKnuth | MutableBigInteger.java:1178 | 14
                    com.fasterxml.jackson.databind.ObjectMapper.writeValueAsBytes | ObjectMapper.java:3949 | 1
                      com.fasterxml.jackson.databind.ser.BeanSerializer.serialize | BeanSerializer.java:182 | 11
                        com.fasterxml.jackson.core.json.UTF8JsonGenerator.writeString | UTF8JsonGenerator.java:500 | 13
                    org.hibernate.internal.SessionImpl.find | SessionImpl.java:2343 | 2
                      org.hibernate.loader.ast.internal.SingleIdEntityLoaderStandardImpl.load | SingleIdEntityLoaderStandardImpl.java:87 | 8
                        java.util.HashMap.getNode | HashMap.java:580 | 9
    G1ConcurrentMarkThread::run_service | src/hotspot/share/gc/g1/g1ConcurrentMarkThread.cpp:120 | 0
      G1CMTask::do_marking_step | src/hotspot/share/gc/g1/g1ConcurrentMark.cpp:2470 | 9
        G1CMTask::drain_local_queue | src/hotspot/share/gc/g1/g1ConcurrentMark.cpp:2200 | 12
    CompileBroker::compiler_thread_loop | src/hotspot/share/compiler/compileBroker.cpp:1936 | 0
      C2Compiler::compile_method | src/hotspot/share/opto/c2compiler.cpp:142 | 1
        PhaseIdealLoop::build_and_optimize | src/hotspot/share/opto/loopnode.cpp:4533 | 8
        PhaseChaitin::Register_Allocate | src/hotspot/share/opto/chaitin.cpp:366 | 6`,
  },
  {
    name: "python3.13",
    pids: [4121, 4122],
    service: "recommender",
    container: "",
    pod: "",
    threads: ["python3.13", "worker-0"],
    type: "cpython",
    mapping: "",
    load: 0.8,
    tree: `
Py_RunMain native [python3.13] | Modules/main.c:776 | 0
  _PyEval_EvalFrameDefault | Python/generated_cases.c.h:912 | 4
    <module> cpython [] | /srv/recommender/worker.py:3 | 0
      Worker.run | /srv/recommender/worker.py:61 | 1
        Worker.handle | /srv/recommender/worker.py:88 | 2
          Recommender.rank | /srv/recommender/rank.py:34 | 9
            Recommender.score | /srv/recommender/rank.py:71 | 26
              <listcomp> | /srv/recommender/rank.py:73 | 12
            dot native [_multiarray_umath.so] | numpy/_core/src/multiarray/cblasfuncs.c:233 | 1
              cblas_matrixproduct | numpy/_core/src/multiarray/cblasfuncs.c:245 | 2
                dgemm_kernel_HASWELL [libopenblas.so.0] | kernel/x86_64/dgemm_kernel_4x8_haswell.S:2010 | 33
          loads | /usr/lib/python3.13/json/__init__.py:299 | 1
            JSONDecoder.raw_decode | /usr/lib/python3.13/json/decoder.py:353 | 6
              scan_once native [_json.so] | Modules/_json.c:1032 | 7
    gc_collect_main | Python/gc.c:1331 | 5`,
  },
  {
    name: "node",
    pids: [5200],
    service: "storefront",
    container: "9b8f3e5d7712",
    pod: "storefront-84c",
    threads: ["node", "libuv-worker"],
    type: "v8js",
    mapping: "",
    load: 0.6,
    tree: `
__libc_start_main native [libc.so.6] | csu/libc-start.c:392 | 0
  node::Start [node] | src/node.cc:1542 | 0
    uv_run | deps/uv/src/unix/core.c:447 | 1
      uv__io_poll | deps/uv/src/unix/linux.c:1397 | 2
        processTicksAndRejections v8js [] | node:internal/process/task_queues:72 | 1
          renderPage | /app/dist/server/render.js:118 | 3
            renderToString | /app/node_modules/preact-render-to-string/dist/index.js:94 | 9
              _renderToString | /app/node_modules/preact-render-to-string/dist/index.js:211 | 28
                encodeEntities | /app/node_modules/preact-render-to-string/dist/index.js:31 | 12
            fetchProducts | /app/dist/server/products.js:40 | 3
              JSON.parse native [node] | deps/v8/src/json/json-parser.cc:310 | 10
        Builtins_InterpreterEntryTrampoline | deps/v8/src/builtins/x64/builtins-x64.cc:1039 | 5
      v8::internal::Heap::Scavenge | deps/v8/src/heap/heap.cc:2597 | 6`,
  },
  {
    name: "postgres",
    pids: [640, 641, 642],
    service: "postgresql",
    container: "",
    pod: "",
    threads: ["postgres"],
    type: "native",
    mapping: "postgres",
    load: 0.7,
    tree: `
_start | | 0
  main | src/backend/main/main.c:197 | 0
    PostmasterMain | src/backend/postmaster/postmaster.c:1374 | 0
      BackendMain | src/backend/tcop/backend_startup.c:105 | 0
        PostgresMain | src/backend/tcop/postgres.c:4767 | 3
          exec_simple_query | src/backend/tcop/postgres.c:1017 | 2
            pg_parse_query | src/backend/tcop/postgres.c:612 | 1
              base_yyparse | src/backend/parser/gram.c:29872 | 9
            PortalRun | src/backend/tcop/pquery.c:768 | 1
              ExecutePlan | src/backend/executor/execMain.c:1662 | 2
                ExecHashJoin | src/backend/executor/nodeHashjoin.c:683 | 14
                  ExecSeqScan | src/backend/executor/nodeSeqscan.c:109 | 8
                    heap_getnextslot | src/backend/access/heap/heapam.c:1278 | 17
                      ReadBufferExtended | src/backend/storage/buffer/bufmgr.c:779 | 4
                        pread64 [libc.so.6] | sysdeps/unix/syscall-template.S:120 | 0
                          entry_SYSCALL_64_after_hwframe kernel | arch/x86/entry/entry_64.S:130 | 0
                            do_syscall_64 | arch/x86/entry/common.c:89 | 1
                              vfs_read | fs/read_write.c:570 | 1
                                ext4_file_read_iter | fs/ext4/file.c:147 | 1
                                  filemap_read | mm/filemap.c:2647 | 3
                                    copy_page_to_iter | lib/iov_iter.c:362 | 9`,
  },
  {
    name: "beam.smp",
    pids: [7001],
    service: "rabbitmq",
    container: "",
    pod: "",
    threads: ["erts_sched_1", "erts_sched_2"],
    type: "beam",
    mapping: "",
    load: 0.18,
    tree: `
sched_thread_func native [beam.smp] | beam/erl_process.c:8633 | 0
  process_main | beam/jit/x86/process_main.cpp:77 | 2
    rabbit_channel:handle_method/3 beam [] | rabbit_channel.erl:1205 | 6
      rabbit_exchange:route/2 | rabbit_exchange.erl:402 | 9
      rabbit_queue_type:deliver/4 | rabbit_queue_type.erl:571 | 5`,
  },
  {
    name: "ruby",
    pids: [7120],
    service: "billing",
    container: "",
    pod: "",
    threads: ["sidekiq"],
    type: "ruby",
    mapping: "",
    load: 0.2,
    tree: `
rb_vm_exec native [libruby-3.3.so.3.3] | vm.c:2486 | 2
  Sidekiq::Processor#process ruby [] | sidekiq/processor.rb:164 | 1
    InvoiceJob#perform | /srv/billing/app/jobs/invoice_job.rb:12 | 4
      ActiveRecord::Relation#load | active_record/relation.rb:702 | 7
      Prawn::Document#render | prawn/document.rb:388 | 11`,
  },
  {
    name: "php-fpm",
    pids: [7301],
    service: "blog",
    container: "",
    pod: "",
    threads: ["php-fpm"],
    type: "php",
    mapping: "",
    load: 0.14,
    tree: `
php_execute_script native [php-fpm] | main/main.c:2517 | 1
  {main} php [] | /var/www/index.php:17 | 1
    WP_Query::get_posts | /var/www/wp-includes/class-wp-query.php:1897 | 6
    wptexturize | /var/www/wp-includes/formatting.php:49 | 9
      preg_replace native [libpcre2-8.so.0] | src/pcre2_match.c:594 | 5`,
  },
  {
    name: "Inventory",
    pids: [7400],
    service: "inventory",
    container: "",
    pod: "",
    threads: [".NET TP Worker"],
    type: "dotnet",
    mapping: "",
    load: 0.16,
    tree: `
CallDescrWorkerInternal native [libcoreclr.so] | src/coreclr/vm/amd64/calldescrworkeramd64.S:98 | 0
  System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart dotnet [] | PortableThreadPool.WorkerThread.cs:120 | 1
    Inventory.Controllers.StockController.Reserve | Controllers/StockController.cs:51 | 6
      System.Linq.Enumerable.ToDictionary | ToCollection.cs:101 | 8`,
  },
  {
    name: "backup.pl",
    pids: [7511],
    service: "",
    container: "",
    pod: "",
    threads: ["perl"],
    type: "perl",
    mapping: "",
    load: 0.08,
    tree: `
Perl_runops_standard native [perl] | run.c:41 | 3
  main::walk perl [] | /usr/local/bin/backup.pl:40 | 4
    Digest::SHA::addfile | Digest/SHA.pm:88 | 9`,
  },
  {
    name: "legacyd",
    pids: [611],
    service: "",
    container: "",
    pod: "",
    threads: ["legacyd", "poll", "log", "timer", "io", "jit"],
    type: "native",
    mapping: "legacyd",
    load: 0.09,
    stop: "no_rule",
    cutThread: "jit", // one of six
    tree: `
legacyd+0x41c20 | | 1
  legacyd+0x8f113 | | 6
  libcrunch.so+0x1234 [libcrunch.so] | | 3
    0x7f3a10c4 unknown [] | | 2`,
  },
];
