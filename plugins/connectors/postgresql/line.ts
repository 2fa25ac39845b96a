/**
 * The way to the server: one TCP connection to the address that the host's network policy named, then TLS as the
 * settings ask. Done here and not by the driver, which would resolve names again, read PG* variables and speak to
 * unencrypted servers without saying so.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { orAbort } from './deadline.ts'
import type { Source } from './settings.ts'

export type Protection = 'none' | 'encrypted' | 'verified'

export interface Line {
  readonly socket: Socket
  readonly address: string
  /** `verified`: the server has proved by certificate that it is the one named. */
  readonly protection: Protection
}

/** Why a line could not be protected as asked; carries no text of the peer. */
export class TlsFailure extends Error {
  override readonly name = 'TlsFailure'
  readonly reason: 'refused' | 'untrusted' | 'wrong_name' | 'expired' | 'handshake'

  constructor(reason: TlsFailure['reason'], cause?: unknown) {
    super(`TLS: ${reason}`, { cause })
    this.reason = reason
  }
}

const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])
const KEEPALIVE_AFTER_MS = 10_000

export async function openTcp(
  to: { readonly address: string; readonly family: 4 | 6 },
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted()
  const socket = connectTcp({ host: to.address, family: to.family, port, noDelay: true })
  socket.setKeepAlive(true, KEEPALIVE_AFTER_MS)
  socket.on('error', heardElsewhere)
  return settle(socket, 'connect', signal)
}

/** Destroys the socket when it throws. */
export async function protect(socket: Socket, address: string, source: Source, signal: AbortSignal): Promise<Line> {
  if (source.sslMode === 'disable') return { socket, address, protection: 'none' }
  if (!(await serverTakesTls(socket, signal))) {
    if (source.sslMode === 'prefer') return { socket, address, protection: 'none' }
    socket.destroy()
    throw new TlsFailure('refused')
  }
  const verifies = verifiesPeer(source)
  const secure = connectTls({ socket, ...tlsOptions(source) })
  secure.on('error', heardElsewhere)
  await settle(secure, 'secureConnect', signal).catch((error: unknown) => {
    socket.destroy()
    throw signal.aborted ? signal.reason : new TlsFailure(tlsReason(error), error)
  })
  return { socket: secure, address, protection: verifies ? 'verified' : 'encrypted' }
}

/** As libpq: `require` with an authority given checks against it. */
function verifiesPeer(source: Source): boolean {
  return source.sslMode.startsWith('verify') || (source.sslMode === 'require' && source.sslRootCert !== null)
}

function tlsOptions(source: Source): ConnectionOptions {
  return {
    host: source.host,
    // A name, never an address: RFC 6066 section 3.
    ...(isIP(source.host) ? {} : { servername: source.host }),
    ...(source.sslRootCert === null ? {} : { ca: source.sslRootCert }),
    rejectUnauthorized: verifiesPeer(source),
    ...(source.sslMode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
    minVersion: 'TLSv1.2',
  }
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

async function settle<S extends Socket | TLSSocket>(socket: S, event: string, signal: AbortSignal): Promise<S> {
  const done = Promise.withResolvers<S>()
  const onReady = () => done.resolve(socket)
  const onClose = () => done.reject(new Error('closed'))
  socket.once(event, onReady).once('error', done.reject).once('close', onClose)
  try {
    return await orAbort(signal, done.promise)
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    socket.off(event, onReady).off('error', done.reject).off('close', onClose)
  }
}

/** An error between two steps, when nobody listens, must not end the process: the next step meets a dead socket. */
function heardElsewhere(): void {}

function tlsReason(error: unknown): TlsFailure['reason'] {
  const code = (error as { code?: unknown }).code
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'wrong_name'
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') return 'expired'
  return typeof code === 'string' && /CERT|ISSUER|SIGNATURE|SELF_SIGNED|CA_/.test(code) ? 'untrusted' : 'handshake'
}
