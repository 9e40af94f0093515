import os, time
_sock = os.environ.get("GPURUN_CAPTURE", "/dev/gpurun-capture") + "/sock"
def _sleep(s):
    import socket
    with socket.socket(socket.AF_UNIX) as c:
        c.connect(_sock)
        c.sendall(b'{"Op":"sleep","Seconds":%f,"PID":%d}\n' % (s, os.getpid()))
        c.recv(99)
if os.path.exists(_sock):
    time.sleep = _sleep
