/**
 * What is proved of a plugin. A capability that is not is off, so that no data is entrusted to a promise that nobody
 * has tried. The plugins that this runtime depends on itself are proved by the tests of its release.
 */
import { type Certificate, type ConnectorPlugin, capabilityNames, type ServingPlugin } from '@sluice/sdk'
import { certificatesIn, digestOfFolder, type FoundCertificate } from './certificates.ts'

export interface ProofRules {
  /** Switches everything on that is declared, proved or not. */
  readonly allowUnproved: boolean
  /** Ed25519 public keys, SPKI in base64. */
  readonly trustedKeys: readonly string[]
  /** Where certificates are looked for, besides the plugin's own package. */
  readonly folder: string | null
}

export interface PluginProof {
  /** `allowed`: not proved, and switched on all the same. */
  readonly status: 'bundled' | 'certified' | 'unproved' | 'allowed'
  /** Of the certificates that count. */
  readonly levels: readonly string[]
  /** What is declared and switched on. */
  readonly on: readonly string[]
  /** What is declared and switched off. */
  readonly off: readonly string[]
  /** For an operator: why, and what to do. */
  readonly message: string
}

/** What certificates say of the very files that are about to be loaded; gathered before any of their code has run. */
export interface Evidence {
  readonly isBundled: boolean
  readonly certificates: readonly Certificate[]
  /** Why others do not count, in words. */
  readonly problems: readonly string[]
}

export interface PackageFiles {
  readonly packageName: string
  readonly packageFolder: string
  /** See `publishedPart` of the SDK. */
  readonly published: readonly string[] | null
  readonly isBundled: boolean
}

export async function gatherEvidence(files: PackageFiles, rules: ProofRules): Promise<Evidence> {
  if (files.isBundled) return { isBundled: true, certificates: [], problems: [] }
  const digest = await digestOfFolder(files.packageFolder, files.published)
  if (digest === null)
    return { isBundled: false, certificates: [], problems: ['its package is too large to be checked'] }
  const beside = await certificatesIn(files.packageFolder)
  const kept = rules.folder === null ? [] : await certificatesIn(rules.folder)
  const judged = [...beside, ...kept].map((found) => judge(found, files.packageName, digest, rules))
  return {
    isBundled: false,
    certificates: judged.flatMap((one) => (one !== null && typeof one === 'object' ? [one] : [])),
    problems: judged.filter((one) => typeof one === 'string'),
  }
}

/** The certificate, or why it does not count; null where it is of another package. */
function judge(
  found: FoundCertificate,
  packageName: string,
  digest: string,
  { trustedKeys }: ProofRules,
): Certificate | string | null {
  if ('problem' in found) return `a certificate does not count: ${found.problem}`
  const { body, publicKey } = found.certificate
  if (body.package.name !== packageName) return null
  if (body.package.sha256 !== digest)
    return 'a certificate is of other files: the package was changed after it was tried'
  if (!trustedKeys.includes(publicKey))
    return `a certificate is signed by ${publicKey}, which certificates.trusted_keys does not name`
  return found.certificate
}

/** Which of the plugin's capabilities are on. */
export function proofOf(plugin: ServingPlugin | ConnectorPlugin, evidence: Evidence, rules: ProofRules): PluginProof {
  const declared = capabilityNames(plugin)
  if (evidence.isBundled) {
    return { status: 'bundled', levels: [], on: declared, off: [], message: 'proved by the tests of this release' }
  }
  const about = evidence.certificates.filter(({ body }) => isAbout(body.plugin, plugin))
  const proved = new Set(about.flatMap(({ body }) => body.proved))
  const missing = declared.filter((name) => !proved.has(name))
  const levels = [...new Set(about.map(({ body }) => body.level))]
  if (missing.length === 0)
    return { status: 'certified', levels, on: declared, off: [], message: 'proved by its certificate' }
  const why = about.length > 0 ? '' : `; ${evidence.problems[0] ?? 'it has no certificate'}`
  if (rules.allowUnproved) {
    const message = `not proved: ${missing.join(', ')}${why}. It is on all the same, since allow_unproved is set`
    return { status: 'allowed', levels, on: declared, off: [], message }
  }
  const message = `not proved, and so switched off: ${missing.join(', ')}${why}. Prove it with npx sluice-conformance, or set allow_unproved while developing`
  const on = declared.filter((name) => proved.has(name))
  return { status: on.length > 0 ? 'certified' : 'unproved', levels, on, off: missing, message }
}

function isAbout(certified: Certificate['body']['plugin'], plugin: ServingPlugin | ConnectorPlugin): boolean {
  return certified.kind === plugin.kind && certified.type === plugin.type && certified.name === plugin.name
}
