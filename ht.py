# tiny range server + duckdb: does SET memory_limit evict cached blocks?
import http.server, threading, os, re, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'
    def log_message(self,*a): pass
    def do_HEAD(self): self.do_GET(True)
    def do_GET(self, head=False):
        p=sys.argv[1]+self.path; data=open(p,'rb').read(); n=len(data); r=self.headers.get('Range')
        if r:
            a,b=re.match(r'bytes=(\d+)-(\d*)',r).groups(); a=int(a); b=min(int(b or n-1),n-1)
            body=data[a:b+1]; self.send_response(206); self.send_header('Content-Range',f'bytes {a}-{b}/{n}')
        else: body=data; self.send_response(200)
        self.send_header('Content-Length',str(len(body))); self.send_header('Accept-Ranges','bytes'); self.send_header('ETag','"x"'); self.send_header('Last-Modified','Wed, 21 Oct 2015 07:28:00 GMT'); self.end_headers()
        if not head: self.wfile.write(body)
s=http.server.ThreadingHTTPServer(('127.0.0.1',0),H); threading.Thread(target=s.serve_forever,daemon=True).start()
import duckdb, duckdb_extension_httpfs; from pathlib import Path
c=duckdb.connect(); [e]=Path(duckdb_extension_httpfs.__path__[0]).rglob('httpfs.duckdb_extension'); c.execute(f"LOAD '{e}'"); c.execute("set threads=2")
u=f'http://127.0.0.1:{s.server_port}'
import glob
f=glob.glob(sys.argv[1]+'/lineitem/*.parquet')[0]; u=u+f[len(sys.argv[1]):]
def mem(): return {k:v for k,v,_ in c.execute("select * from duckdb_memory()").fetchall() if v}
print(mem())
for col in ('l_orderkey','l_comment','l_extendedprice','l_partkey','l_suppkey','l_shipdate'):
    c.execute(f"select count(distinct {col}) from '{u}'").fetchall(); print(col,mem())
print(c.execute("select count(*),sum(nr_bytes) from duckdb_external_file_cache() where loaded").fetchall())
for lim in (1000000, 500000, 100000):
    try: c.execute(f"set memory_limit='{lim}B'"); print(lim, mem(), c.execute("select count(*),sum(nr_bytes) from duckdb_external_file_cache() where loaded").fetchall())
    except Exception as x: print(lim,x)
c.execute("set memory_limit='1GB'"); print(mem()); c.execute(f"select count(distinct l_orderkey) from '{u}'").fetchall(); print(mem())
