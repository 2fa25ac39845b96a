/** Which server the commands speak to, with whose token, and what is said where either is no good. */
import { UsageError } from './arguments.ts'

/** A variable of the environment without blanks around it; undefined where it is not set. Throws where it is empty. */
export function variable(name: 'SLUICE_URL' | 'SLUICE_TOKEN'): string | undefined {
  const text = process.env[name]
  if (text === undefined) return undefined
  const value = text.trim()
  if (value !== '') return value
  throw new UsageError(`${name} is set, and empty: give it a value, or unset it`)
}

/** The token of the environment. What could not be sent is said before it is. */
export function tokenVariable(): string | undefined {
  const token = variable('SLUICE_TOKEN')
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return token
  throw new UsageError('SLUICE_TOKEN is no token: it holds blanks, line breaks or other signs that a token has not')
}

export function checkedAddress(address: string, from: string): string {
  const isOne = URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)
  if (isOne) return address
  throw new UsageError(`${from} is an address such as http://127.0.0.1:8080, and not "${address}"`)
}

const CERTIFICATE = 'its certificate is not trusted here (NODE_EXTRA_CA_CERTS names a file of authorities to trust)'

const NO_HTTP = 'no HTTP'

/** By what Node says of a request that got no answer. */
const WHY_UNREACHED: Readonly<Record<string, string>> = {
  [NO_HTTP]: 'what listens there does not speak HTTP',
  ECONNREFUSED: 'nothing listens there; is the server running?',
  ENOTFOUND: 'no machine of that name is known',
  EAI_AGAIN: 'names cannot be looked up just now',
  ECONNRESET: 'the connection was cut',
  UND_ERR_SOCKET: 'the connection was cut',
  ETIMEDOUT: 'there is no answer',
  UND_ERR_CONNECT_TIMEOUT: 'there is no answer',
  UND_ERR_HEADERS_TIMEOUT: 'there is no answer',
  EHOSTUNREACH: 'there is no way to that machine',
  ENETUNREACH: 'there is no way to that machine',
  ERR_SSL_WRONG_VERSION_NUMBER: 'no TLS is spoken there; try http://',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'no TLS is spoken there; try http://',
  DEPTH_ZERO_SELF_SIGNED_CERT: CERTIFICATE,
  SELF_SIGNED_CERT_IN_CHAIN: CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CERTIFICATE,
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is that of another name',
}

/** There is no server now, and may be one later. */
export class ServerAway extends Error {
  readonly remedy: string | undefined

  constructor(message: string, { remedy, cause }: { readonly remedy?: string; readonly cause?: unknown } = {}) {
    super(message, { cause })
    this.remedy = remedy
  }
}

export function unreachable(url: string, cause: unknown): Error {
  const why = WHY_UNREACHED[codeOf(cause)] ?? 'is the server running there?'
  return new ServerAway(`${url} cannot be reached: ${why}`, { cause })
}

/** `fetch` wraps what happened, and wraps several where a name has several addresses. Its parser gives no code. */
function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return ''
  const { code, name, cause, errors } = error as Error & { code?: unknown; errors?: readonly unknown[] }
  if (name === 'HTTPParserError') return NO_HTTP
  return typeof code === 'string' ? code : codeOf(cause ?? errors?.[0])
}

const GATEWAY = [502, 503, 504]

/** Something that answers, and is not Sluice: a gateway before it, or another server. */
export function otherServer(url: string, status: number): Error {
  if (GATEWAY.includes(status))
    return new ServerAway(`the server behind ${url} does not answer, says its gateway (${status})`)
  return Object.assign(new Error(`what answers at ${url} is not Sluice (${status})`), {
    remedy: 'Name the server with --url or SLUICE_URL: scheme, host and port, as http://127.0.0.1:8080.',
  })
}
