/** How PostgreSQL is asked for TLS: by a request of its own, before anything else is said. */
import type { Socket } from 'node:net'
import { orAbort } from '../server/deadline.ts'
import { type Line, type Peer, secured, TlsFailure } from '../server/line.ts'

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** Destroys the socket when it throws. */
export async function protect(socket: Socket, address: string, source: Peer, signal: AbortSignal): Promise<Line> {
  if (source.sslMode === 'disable') return { socket, address, protection: 'none' }
  if (!(await serverTakesTls(socket, signal))) {
    if (source.sslMode === 'prefer') return { socket, address, protection: 'none' }
    socket.destroy()
    throw new TlsFailure('refused')
  }
  return secured(socket, address, source, signal)
}

async function serverTakesTls(socket: Socket, signal: AbortSignal): Promise<boolean> {
  socket.write(SSL_REQUEST)
  const answer = await nextByte(socket, signal)
  if (answer === 'S') return true
  if (answer === 'N') return false
  socket.destroy()
  throw new TlsFailure('handshake')
}

/** More than one byte would have been sent before TLS and could be anybody's: it is refused (CVE-2021-23222). */
async function nextByte(socket: Socket, signal: AbortSignal): Promise<string> {
  const answer = Promise.withResolvers<string>()
  const onData = (data: Buffer) => answer.resolve(data.toString('latin1'))
  const onClose = () => answer.reject(new TlsFailure('handshake'))
  socket.once('data', onData).once('error', answer.reject).once('close', onClose)
  try {
    return await orAbort(signal, answer.promise)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    socket.off('data', onData).off('error', answer.reject).off('close', onClose)
    socket.pause()
  }
}
