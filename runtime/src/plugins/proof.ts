/**
 * What is proved of a plugin. A capability that is not is off, so that no data is entrusted to a promise that nobody
 * has tried. The plugins that this runtime depends on itself are proved by the tests of its release.
 */
import {
  type Certificate,
  type ConnectorPlugin,
  capabilityNames,
  type DependingManifest,
  keyName,
  type ServingPlugin,
} from '@sluice/sdk'
import { certificatesIn, digestOfFolder, type FoundCertificate } from './certificates.ts'
import { installedWith, type ProofRules, unfit } from './proof-rules.ts'

/** A certificate that counts, as an operator rules by it. */
export interface CountedCertificate {
  readonly level: string
  /** `YYYY-MM-DD`; null where it does not say. */
  readonly date: string | null
  readonly sdk: string
  readonly suite: string
  /** Of what the plugin was tried with; null where it does not say. */
  readonly dependencies: string | null
  /** The name of the key, and who signed in his own words. */
  readonly key: string
  readonly signer: string | null
}

export interface PluginProof {
  /** `allowed`: not proved, and switched on all the same. */
  readonly status: 'bundled' | 'certified' | 'unproved' | 'allowed'
  /** Of the certificates that count. */
  readonly levels: readonly string[]
  readonly certificates: readonly CountedCertificate[]
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
  /** Its package.json, as far as it says what it depends on. */
  readonly packageJson: DependingManifest
  readonly isBundled: boolean
}

export async function gatherEvidence(files: PackageFiles, rules: ProofRules): Promise<Evidence> {
  if (files.isBundled) return { isBundled: true, certificates: [], problems: [] }
  const digest = await digestOfFolder(files.packageFolder, files.published)
  if (digest === null)
    return { isBundled: false, certificates: [], problems: ['its package is too large to be checked'] }
  const found = [
    ...(await certificatesIn(files.packageFolder)),
    ...(rules.folder === null ? [] : await certificatesIn(rules.folder)),
  ]
  const judged = found.map((one) => judge(one, files.packageName, digest, rules))
  const signed = judged.flatMap((one) => (one !== null && typeof one === 'object' ? [one] : []))
  const installed = await installedWith(files, signed)
  const certificates: Certificate[] = []
  const problems = judged.filter((one) => typeof one === 'string')
  for (const certificate of signed) {
    const why = unfit(certificate.body, rules, installed)
    if (why === null) certificates.push(certificate)
    else problems.push(why)
  }
  return { isBundled: false, certificates, problems }
}

/** The certificate, where it is of these files and signed by a key that counts, or why not; null: of another package. */
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
    return `a certificate is signed by ${publicKey} (${keyName(publicKey)}), which certificates.trusted_keys does not name`
  return found.certificate
}

/** Why what comes with the runtime needs no certificate. */
export const OF_THIS_RELEASE = 'proved by the tests of this release'

/** Which of the plugin's capabilities are on. */
export function proofOf(plugin: ServingPlugin | ConnectorPlugin, evidence: Evidence, rules: ProofRules): PluginProof {
  const declared = capabilityNames(plugin)
  if (evidence.isBundled) {
    return {
      status: 'bundled',
      levels: [],
      certificates: [],
      on: declared,
      off: [],
      message: OF_THIS_RELEASE,
    }
  }
  const about = evidence.certificates.filter(({ body }) => isAbout(body.plugin, plugin))
  const proved = new Set(about.flatMap(({ body }) => body.proved))
  const missing = declared.filter((name) => !proved.has(name))
  const facts = { levels: [...new Set(about.map(({ body }) => body.level))], certificates: about.map(counted) }
  if (missing.length === 0)
    return { status: 'certified', ...facts, on: declared, off: [], message: 'proved by its certificate' }
  const why = whyNot(about, evidence)
  if (rules.allowUnproved) {
    const message = `not proved: ${missing.join(', ')}${why}. It is on all the same, since allow_unproved is set`
    return { status: 'allowed', ...facts, on: declared, off: [], message }
  }
  const message = `not proved, and so switched off: ${missing.join(', ')}${why}. Prove it with npx sluice-conformance, or set allow_unproved while developing`
  const on = declared.filter((name) => proved.has(name))
  return { status: on.length > 0 ? 'certified' : 'unproved', ...facts, on, off: missing, message }
}

/** Others that do not count may be what is missing. */
function whyNot(about: readonly Certificate[], { problems }: Evidence): string {
  const [first] = problems
  if (first !== undefined) return `; ${first}`
  return about.length > 0 ? '' : '; it has no certificate'
}

function counted({ body, publicKey }: Certificate): CountedCertificate {
  const { level, sdk, suite, date = null, signer = null } = body
  return { level, date, sdk, suite, dependencies: body.dependencies?.sha256 ?? null, key: keyName(publicKey), signer }
}

function isAbout(certified: Certificate['body']['plugin'], plugin: ServingPlugin | ConnectorPlugin): boolean {
  return certified.kind === plugin.kind && certified.type === plugin.type && certified.name === plugin.name
}
