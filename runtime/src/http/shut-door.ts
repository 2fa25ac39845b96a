/**
 * What a listener needs before it closes: closing resets the connections that the kernel has made and nobody has taken
 * yet, and whoever sent a request on one cannot know whether it was read.
 */
import type { Server } from 'node:net'
import koffi from 'koffi'

const SOL_SOCKET = 1
const SO_ATTACH_FILTER = 26
/**
 * A program for the packets of a socket, which it reads from their TCP header on: of those that ask for a connection it
 * keeps nothing. All others pass. The kernel completes a connection with a packet to the listener, too, and by then its
 * client may have sent the request.
 */
const KEEP_NO_ATTEMPT = Buffer.from([
  // Load the byte of the flags, and of them look at SYN and ACK.
  ...[0x30, 0, 0, 0, 13, 0, 0, 0],
  ...[0x54, 0, 0, 0, 0x12, 0, 0, 0],
  // SYN alone: on with the next one, which keeps nothing. Else: over it, to keep everything.
  ...[0x15, 0, 0, 1, 0x02, 0, 0, 0],
  ...[0x06, 0, 0, 0, 0, 0, 0, 0],
  ...[0x06, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
])
const INSTRUCTION_BYTES = 8

type SetOption = (fd: number, level: number, name: number, value: unknown, length: number) => number

let setOption: SetOption | null = null

/**
 * From now on the kernel passes over attempts to connect: those who make one try again by themselves, a second later, and
 * are refused where the listener is closed by then. Connections that exist go on, and those that are being made are made.
 * False where the system cannot do it; then some connections may be made between the last look and the close.
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
  const program = { len: KEEP_NO_ATTEMPT.length / INSTRUCTION_BYTES, filter: KEEP_NO_ATTEMPT }
  return setOption(fd, SOL_SOCKET, SO_ATTACH_FILTER, program, koffi.sizeof('sock_fprog'))
}
