/** The way to one broker: the address that the host's policy names, TLS, what the broker can do, and the login. */
import type { ConnectorHost } from '@sluice/sdk'
import { PasswordWithheld } from '../server/failure.ts'
import { type Line, openTcp, secured } from '../server/line.ts'
import { ERRORS, KafkaRefusal } from './failure.ts'
import type { Cluster } from './settings.ts'
import { AUTHENTICATE, EPOCH_ENDS, FETCH, HANDSHAKE, METADATA, OFFSETS, VERSIONS } from './wire/answers.ts'
import { BrokenAnswer } from './wire/bytes.ts'
import { BrokerLine } from './wire/line.ts'
import { scram } from './wire/scram.ts'

export interface Address {
  readonly address: string
  readonly family: 4 | 6
}

export interface Place {
  readonly host: string
  readonly port: number
}

export async function protectedLine(
  { tls, ca }: Pick<Cluster, 'tls' | 'ca'>,
  place: Place,
  to: Address,
  signal: AbortSignal,
): Promise<Line> {
  const socket = await openTcp(to, place.port, signal)
  if (!tls) return { socket, address: to.address, protection: 'none' }
  return secured(socket, to.address, { host: place.host, sslMode: 'verify-full', sslRootCert: ca }, signal)
}

export interface LoggedIn {
  readonly line: BrokerLine
  /** How long the login holds, by the broker's word; null: as long as the line. */
  readonly lifetimeMs: number | null
}

/** Closes the line where it throws. */
export async function loggedIn(
  cluster: Cluster,
  { socket, address, protection }: Line,
  { clock, network, randomBytes }: ConnectorHost,
  signal: AbortSignal,
): Promise<LoggedIn> {
  const line = new BrokerLine(socket, clock)
  try {
    await expectVersions(line, signal)
    const { login } = cluster
    if (login === null) return { line, lifetimeMs: null }
    const { mechanism, user, password } = login
    const isClear = mechanism === 'PLAIN' && protection !== 'verified'
    if (isClear && !network.allowsCleartextPassword(address)) throw new PasswordWithheld('unprotected')
    const { error, mechanisms } = await line.ask(HANDSHAKE, mechanism, signal)
    if (error !== 0 || !mechanisms.includes(mechanism))
      throw new KafkaRefusal(error === 0 ? ERRORS.unsupportedMechanism : error, HANDSHAKE.name)
    let lifetimeMs = 0
    const exchange = async (message: Buffer): Promise<Buffer> => {
      const answer = await line.ask(AUTHENTICATE, message, signal)
      if (answer.error !== 0) throw new KafkaRefusal(answer.error, AUTHENTICATE.name)
      lifetimeMs = answer.lifetimeMs
      return answer.bytes
    }
    if (mechanism === 'PLAIN') await exchange(Buffer.from(`\0${user}\0${password}`))
    else {
      const nonce = Buffer.from(randomBytes(24)).toString('base64')
      await scram(mechanism === 'SCRAM-SHA-256' ? 'sha256' : 'sha512', { user, password, nonce }, exchange)
    }
    return { line, lifetimeMs: lifetimeMs > 0 ? lifetimeMs : null }
  } catch (error) {
    line.close()
    throw error
  }
}

async function expectVersions(line: BrokerLine, signal: AbortSignal): Promise<void> {
  const { error, apis } = await line.ask(VERSIONS, null, signal)
  if (error !== 0) throw new KafkaRefusal(error, VERSIONS.name)
  for (const { key, version, name } of [METADATA, OFFSETS, EPOCH_ENDS, FETCH]) {
    const [least, most] = apis.get(key) ?? [0, -1]
    if (version < least || version > most)
      throw new BrokenAnswer(`the broker has no version ${version} of ${name}, which Kafka has since 3.1`)
  }
}
