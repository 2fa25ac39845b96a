/**
 * How a client proves who it is: the user of a service password by SCRAM-SHA-256, by which the password is not sent; every
 * other by a token, in clear.
 */
import { SCRAM, SCRAM_PLUS, ScramExchange, ScramFault, type ScramMechanism } from '../../auth/scram.ts'
import { isPasswordUser } from '../../auth/service-passwords.ts'
import { parseMessage, parseSaslAnswer, parseSaslStart } from '../protocol/client-messages.ts'
import * as say from '../protocol/server-messages.ts'
import { protocolViolation, WireError } from '../protocol/wire-error.ts'
import { type Authorities, Authority, authenticationFailed, FailedLogins } from './authority.ts'
import type { ClientStream } from './client-stream.ts'

export interface LoginParts {
  readonly authorities: Authorities
  readonly stream: ClientStream
  /** Hash of the certificate that this client was shown; null: none, or one that nothing can be bound to. */
  readonly endPoint: Buffer | null
  /** The same for the whole session. */
  readonly connection: object
  /** Until it has to be over. */
  leftMs(): number
}

export interface LoginNames {
  readonly user: string
  readonly database: string
}

/** Null where the client is gone. Throws 28P01 for who is not let in, 08P01 and 28000 for what is no exchange with this server. */
export function logIn(parts: LoginParts, names: LoginNames): Promise<Authority | null> {
  return isPasswordUser(names.user) ? byPassword(parts, names) : byToken(parts, names)
}

async function byToken(parts: LoginParts, { database }: LoginNames): Promise<Authority | null> {
  const { authorities, stream, connection, leftMs } = parts
  stream.queue(say.authenticationCleartext())
  await stream.flush()
  const frame = await stream.next('message', leftMs())
  if (frame === null) return null
  const answer = frame.type === 'p' ? parseMessage(frame) : null
  if (answer?.kind !== 'password') throw authenticationFailed()
  const login = { database, address: stream.remoteAddress }
  return withinTime(Authority.ofToken(authorities, { ...login, token: answer.password, connection }), leftMs())
}

async function byPassword(parts: LoginParts, { user, database }: LoginNames): Promise<Authority | null> {
  const { authorities, stream, leftMs } = parts
  const failed = new FailedLogins(authorities, stream.remoteAddress)
  failed.refuseMany()
  const final = await exchanged(parts, user).catch((error: unknown) => {
    if (!isSilence(error)) failed.count()
    throw toldOf(error)
  })
  if (final === null) return null
  const login = { user, database, address: stream.remoteAddress }
  const authority = await withinTime(Authority.ofPassword(authorities, login), leftMs())
  // Only who is let in is told that his proof was right.
  stream.queue(say.authenticationSaslFinal(final))
  return authority
}

/** This side's proof, for a client that has given its own; null where the client is gone. */
async function exchanged({ authorities, stream, endPoint, leftMs }: LoginParts, user: string): Promise<string | null> {
  const offered: readonly ScramMechanism[] = endPoint === null ? [SCRAM] : [SCRAM_PLUS, SCRAM]
  stream.queue(say.authenticationSasl(offered))
  await stream.flush()
  const first = await stream.next('message', leftMs())
  if (first === null) return null
  const { mechanism: chosen, text } = parseSaslStart(first)
  const mechanism = offered.find((one) => one === chosen)
  if (mechanism === undefined) throw protocolViolation('the SASL mechanism is none of those that were offered')
  const verifier = await withinTime(authorities.passwords.verifierOf(user), leftMs())
  const exchange = new ScramExchange({ mechanism, endPoint, verifier })
  stream.queue(say.authenticationSaslContinue(exchange.challenge(text)))
  await stream.flush()
  const last = await stream.next('message', leftMs())
  if (last === null) return null
  const final = exchange.answer(parseSaslAnswer(last))
  if (final === null) throw authenticationFailed()
  return final
}

function toldOf(error: unknown): unknown {
  if (!(error instanceof ScramFault)) return error
  const { kind, message } = error
  if (kind === 'malformed') return protocolViolation(`the SCRAM exchange cannot go on: ${message}`)
  return new WireError('28000', `the channel binding of SCRAM does not hold: ${message}`, {
    isFatal: true,
    hint: 'Connect without anything that ends TLS in between, or with channel_binding=disable where you trust it.',
  })
}

/** It is gone, or was silent for too long: it has tried nothing. */
export const isSilence = (error: unknown): boolean =>
  error instanceof WireError && ['57P05', '08006'].includes(error.sqlState)

async function withinTime<T>(work: Promise<T>, ms: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(authenticationFailed()), ms)
  // Too late, its failure is nobody's: the client was told.
  work.catch(() => undefined)
  try {
    return await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
