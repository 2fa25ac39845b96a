/** One question to a schema registry and its answer: to the address that the host's policy names, bounded, and nowhere else. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { ConnectorHost } from '@sluice/sdk'
import { orAbort, within } from '../../server/deadline.ts'
import { PasswordWithheld } from '../../server/failure.ts'
import { type Line, openTcp, secured } from '../../server/line.ts'
import { LineLost } from '../failure.ts'
import { RegistryAnswer } from './failure.ts'
import type { RegistryPlace } from './settings.ts'

const ANSWER_MS = 30_000
const MAX_ANSWER_BYTES = 4 * 1024 * 1024

export interface Answer {
  readonly status: number
  /** Parsed; undefined where it is no JSON. */
  readonly body: unknown
}

/** @param path of the registry, its parts encoded */
export function answered(
  place: RegistryPlace,
  path: string,
  host: ConnectorHost,
  signal: AbortSignal,
): Promise<Answer> {
  return within(host.clock, signal, ANSWER_MS, async (hurry) => {
    const line = await lineTo(place, host, hurry)
    try {
      return await orAbort(hurry, asked(place, path, line))
    } finally {
      line.socket.destroy()
    }
  })
}

async function lineTo(place: RegistryPlace, { network }: ConnectorHost, signal: AbortSignal): Promise<Line> {
  const to = await network.resolve(place.host, place.port, signal)
  const socket = await openTcp(to, place.port, signal)
  const line: Line = place.isTls
    ? await secured(socket, to.address, { host: place.host, sslMode: 'verify-full', sslRootCert: place.ca }, signal)
    : { socket, address: to.address, protection: 'none' }
  const isClear = place.authorization !== null && line.protection !== 'verified'
  if (!isClear || network.allowsCleartextPassword(to.address)) return line
  socket.destroy()
  throw new PasswordWithheld('unprotected')
}

async function asked(place: RegistryPlace, path: string, { socket }: Line): Promise<Answer> {
  const { host, port, authorization } = place
  const question: ClientRequest = request({
    host,
    port,
    path: `${place.path}${path}`,
    agent: false,
    createConnection: () => socket,
    headers: {
      accept: 'application/vnd.schemaregistry.v1+json, application/json',
      host: `${host.includes(':') ? `[${host}]` : host}:${port}`,
      ...(authorization === null ? {} : { authorization }),
    },
  })
  const came = Promise.withResolvers<IncomingMessage>()
  question.on('response', came.resolve).on('error', came.reject)
  socket.on('close', () => came.reject(new LineLost('closed')))
  question.end()
  const message = await came.promise
  const { statusCode: status = 0 } = message
  if (status >= 300 && status < 400) throw new RegistryAnswer('it sends readers to another address')
  return { status, body: parsed(await bodyOf(message)) }
}

async function bodyOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new RegistryAnswer(`an answer of it has more than ${MAX_ANSWER_BYTES} bytes`)
    chunks.push(chunk)
  }
  if (!message.complete) throw new LineLost('cut off')
  return Buffer.concat(chunks).toString('utf8')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
