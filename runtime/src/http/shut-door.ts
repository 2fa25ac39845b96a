/**
 * What a listener needs before it closes: closing resets the connections that the kernel has made and nobody has taken
 * yet, and whoever sent a request on one cannot know whether it was read.
 */
import type { Server } from 'node:net'
import koffi from 'koffi'

const SOL_SOCKET = 1
const SO_ATTACH_FILTER = 26
/** A program for the packets of a socket, of one instruction: BPF_RET | BPF_K with 0, which keeps none. */
const KEEP_NOTHING = Buffer.from([0x06, 0, 0, 0, 0, 0, 0, 0])

type SetOption = (fd: number, level: number, name: number, value: unknown, length: number) => number

let setOption: SetOption | null = null

/**
 * From now on the kernel passes over attempts to connect: those who make one try again by themselves, a second later, and
 * are refused where the listener is closed by then. Connections that exist go on. False where the system cannot do it;
 * then some connections may be made between the last look and the close.
 */
export function passOverConnections(server: Server): boolean {
  const fd = (server as unknown as { readonly _handle?: { readonly fd?: number } })._handle?.fd
  if (process.platform !== 'linux' || fd === undefined || fd < 0) return false
  try {
    return attach(fd) === 0
  } catch {
    return false
  }
}

function attach(fd: number): number {
  if (setOption === null) {
    koffi.struct('sock_fprog', { len: 'uint16_t', filter: 'void *' })
    setOption = koffi
      .load(null)
      .func('int setsockopt(int fd, int level, int name, const sock_fprog *value, uint32_t length)') as SetOption
  }
  return setOption(fd, SOL_SOCKET, SO_ATTACH_FILTER, { len: 1, filter: KEEP_NOTHING }, koffi.sizeof('sock_fprog'))
}
