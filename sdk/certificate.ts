/**
 * Certificates: what the conformance suite found out about the files of one plugin, signed by whoever ran it. A runtime
 * switches on what a certificate of a key it trusts says of the very files that it is about to load.
 */
import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import type { CertifiedDependencies } from './dependencies.ts'

export const CERTIFICATE_FORMAT = 'sluice-certificate/1'

/** How certificates are named, beside a plugin's package.json or in a folder of their own. */
export const CERTIFICATE_SUFFIX = '.certificate.json'

export interface CertificateBody {
  readonly plugin: {
    readonly kind: 'serving' | 'connector'
    readonly type: string
    readonly name: string
    readonly version: string
  }
  readonly package: {
    readonly name: string
    readonly version: string
    /** See `packageDigest`. What the package depends on is not part of it: see `dependencies`. */
    readonly sha256: string
  }
  /** The day on which it was made, `YYYY-MM-DD` in UTC. Absent: unknown, it is of a suite that did not say. */
  readonly date?: string
  /** What the package was tried with. Absent: unknown. */
  readonly dependencies?: CertifiedDependencies
  /** The server that the plugin was tried on, as its fixture names it: `Valkey 9.1.2`. Absent: unknown, or there is none. */
  readonly server?: string
  /** Who says that he ran the suite, in his own words: worth what the key is. */
  readonly signer?: string
  readonly sdk: string
  readonly suite: string
  readonly level: 'core' | 'full' | 'hard'
  readonly seed: number
  /** How many checks ended how. */
  readonly checks: Readonly<Record<string, number>>
  /** Names as `capabilityNames` gives them; declared ones that are not here were not proved. */
  readonly proved: readonly string[]
  /** Checks whose failure was waived, by name. */
  readonly waived: readonly string[]
  /** Defective stores and how many of them this suite has caught. */
  readonly killRate: { readonly caught: number; readonly of: number }
}

export interface Certificate {
  readonly format: typeof CERTIFICATE_FORMAT
  readonly body: CertificateBody
  /** Ed25519, SPKI in base64. */
  readonly publicKey: string
  /** Of the body as JSON, in the order in which it stands, in base64. */
  readonly signature: string
}

/** How levels follow one another, the least first. */
export const CERTIFICATE_LEVELS = ['core', 'full', 'hard'] as const

/** A short name of a public key (SPKI in base64), for people to tell keys apart by. */
export function keyName(publicKey: string): string {
  const digest = createHash('sha256').update(Buffer.from(publicKey, 'base64')).digest('hex').slice(0, 16)
  return `ed25519:${digest.match(/.{4}/g)?.join('-') ?? digest}`
}

/** Signs with an Ed25519 key in PEM (PKCS #8). The same body and key give the same certificate. */
export function signCertificate(body: CertificateBody, privateKeyPem: string): Certificate {
  const key = createPrivateKey(privateKeyPem)
  return {
    format: CERTIFICATE_FORMAT,
    body,
    publicKey: createPublicKey(key).export({ type: 'spki', format: 'der' }).toString('base64'),
    signature: sign(null, signedBytes(body), key).toString('base64'),
  }
}

/** The certificate of that text, or in words why it is none. Whether its key is to be trusted is the caller's matter. */
export function readCertificate(text: string): Certificate | { readonly problem: string } {
  let certificate: Partial<Certificate> | null
  try {
    certificate = JSON.parse(text) as Partial<Certificate> | null
  } catch {
    return { problem: 'it is not JSON' }
  }
  if (certificate?.format !== CERTIFICATE_FORMAT) return { problem: `its format is not ${CERTIFICATE_FORMAT}` }
  const { body, publicKey, signature } = certificate
  if (!isBody(body) || typeof publicKey !== 'string' || typeof signature !== 'string') {
    return { problem: 'it is incomplete' }
  }
  return isSignedBy(body, publicKey, signature)
    ? { format: CERTIFICATE_FORMAT, body, publicKey, signature }
    : { problem: 'its signature does not fit: it was changed after it was signed' }
}

function isBody(body: Partial<CertificateBody> | undefined): body is CertificateBody {
  return (
    typeof body?.package?.sha256 === 'string' &&
    typeof body.plugin?.type === 'string' &&
    typeof body.plugin.name === 'string' &&
    Array.isArray(body.proved) &&
    ['string', 'undefined'].includes(typeof body.date) &&
    ['string', 'undefined'].includes(typeof body.signer) &&
    ['string', 'undefined'].includes(typeof body.server) &&
    areDependencies(body.dependencies)
  )
}

function areDependencies(dependencies: Partial<CertifiedDependencies> | undefined): boolean {
  if (dependencies === undefined) return true
  return typeof dependencies?.sha256 === 'string' && Array.isArray(dependencies.packages)
}

function isSignedBy(body: CertificateBody, publicKey: string, signature: string): boolean {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey, 'base64'), type: 'spki', format: 'der' })
    return key.asymmetricKeyType === 'ed25519' && verify(null, signedBytes(body), key, Buffer.from(signature, 'base64'))
  } catch {
    return false
  }
}

function signedBytes(body: CertificateBody): Buffer {
  return Buffer.from(`${CERTIFICATE_FORMAT}\n${JSON.stringify(body)}`)
}

/** What the suite itself writes: data that no plugin can run. */
const REPORTS = ['conformance.json', 'conformance.xml', 'conformance.html', 'conformance.svg']

/**
 * The part of a package that is published, where its package.json names it (`files`, plain names alone) and the plugin's
 * module is in it; null where everything counts. So a package has one digest where it is made and where it is installed.
 */
export function publishedPart(files: unknown, modulePath: string): readonly string[] | null {
  if (!Array.isArray(files) || !files.every((name) => typeof name === 'string' && /^[\w./-]+$/.test(name))) return null
  const listed = files.map((name: string) => name.replace(/^\.\//, '').replace(/\/$/, ''))
  return listed.some((name) => isBelow(modulePath, name)) ? listed : null
}

function isBelow(path: string, name: string): boolean {
  return path === name || path.startsWith(`${name}/`)
}

/**
 * Whether a file of a package, by its path from the package's folder with `/` between the parts, counts in the
 * package's digest: everything but reports, certificates, and what npm and git keep; of a package with a published part
 * that part and package.json.
 */
export function countsInPackage(path: string, published: readonly string[] | null = null): boolean {
  const parts = path.split('/')
  const name = parts.at(-1) ?? ''
  if (parts.includes('node_modules') || parts.includes('.git')) return false
  if (REPORTS.includes(name) || name.endsWith(CERTIFICATE_SUFFIX)) return false
  return published === null || path === 'package.json' || published.some((one) => isBelow(path, one))
}

/** SHA-256 of the paths and contents of the files that count, whatever their order. */
export function packageDigest(
  files: ReadonlyMap<string, Uint8Array>,
  published: readonly string[] | null = null,
): string {
  const hash = createHash('sha256')
  for (const [path, bytes] of [...files].sort(([left], [right]) => (left < right ? -1 : 1))) {
    if (!countsInPackage(path, published)) continue
    hash.update(`${JSON.stringify(path)} ${createHash('sha256').update(bytes).digest('hex')}\n`)
  }
  return hash.digest('hex')
}
