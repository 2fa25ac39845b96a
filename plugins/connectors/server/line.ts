/**
 * The way to a server: one TCP connection to the address that the host's network policy named, then TLS as the settings
 * ask. Done here and not by drivers, which would resolve names again, look into the environment and speak to unencrypted
 * servers without saying so.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { orAbort } from './deadline.ts'

export const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
export type SslMode = (typeof SSL_MODES)[number]

/** Whom the line has to lead to. */
export interface Peer {
  readonly host: string
  readonly sslMode: SslMode
  /** PEM text of the authority; null: the public ones. */
  readonly sslRootCert: string | null
}

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

/** TLS over a socket whose server has agreed to it. Destroys the socket when it throws. */
export async function secured(socket: Socket, address: string, peer: Peer, signal: AbortSignal): Promise<Line> {
  const verifies = verifiesPeer(peer)
  const secure = connectTls({ socket, ...tlsOptions(peer) })
  secure.on('error', heardElsewhere)
  await settle(secure, 'secureConnect', signal).catch((error: unknown) => {
    socket.destroy()
    throw signal.aborted ? signal.reason : new TlsFailure(tlsReason(error), error)
  })
  return { socket: secure, address, protection: verifies ? 'verified' : 'encrypted' }
}

/** As libpq: `require` with an authority given checks against it. */
function verifiesPeer(peer: Peer): boolean {
  return peer.sslMode.startsWith('verify') || (peer.sslMode === 'require' && peer.sslRootCert !== null)
}

function tlsOptions(peer: Peer): ConnectionOptions {
  return {
    host: peer.host,
    // A name, never an address: RFC 6066 section 3.
    ...(isIP(peer.host) ? {} : { servername: peer.host }),
    ...(peer.sslRootCert === null ? {} : { ca: peer.sslRootCert }),
    rejectUnauthorized: verifiesPeer(peer),
    ...(peer.sslMode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
    minVersion: 'TLSv1.2',
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
