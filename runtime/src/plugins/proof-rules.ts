/** What an operator asks of a certificate, besides that it is of the plugin's files and of a key that he trusts. */
import { readFile } from 'node:fs/promises'
import {
  CERTIFICATE_LEVELS,
  type Certificate,
  type CertificateBody,
  type CertifiedDependencies,
  type DependingManifest,
  dependenciesOf,
  dependencyDifference,
} from '@sluice/sdk'
import type { Config } from '../config.ts'
import { digestOfFolder } from './certificates.ts'

export interface ProofRules {
  /** Switches everything on that is declared, proved or not. */
  readonly allowUnproved: boolean
  /** Ed25519 public keys, SPKI in base64. */
  readonly trustedKeys: readonly string[]
  /** Where certificates are looked for, besides the plugin's own package. */
  readonly folder: string | null
  /** Certificates of a lower level do not count. Absent: those of every level do. */
  readonly minLevel?: (typeof CERTIFICATE_LEVELS)[number]
  /** Certificates that are older do not count. Absent: they do not age. */
  readonly maxAgeDays?: number
}

export type Installed = CertifiedDependencies | { readonly problem: string }

const DAY_MS = 86_400_000

export function proofRules(config: Pick<Config, 'allow_unproved' | 'certificates'>): ProofRules {
  const { trusted_keys: trustedKeys, folder = null, min_level: minLevel, max_age: maxAge } = config.certificates
  return {
    allowUnproved: config.allow_unproved,
    trustedKeys,
    folder,
    ...(minLevel === undefined ? {} : { minLevel }),
    ...(maxAge === undefined ? {} : { maxAgeDays: Number.parseInt(maxAge, 10) }),
  }
}

/** What the package is loaded with here; looked for only where a certificate says what it was tried with. */
export async function installedWith(
  files: { readonly packageFolder: string; readonly packageJson: DependingManifest },
  certificates: readonly Certificate[],
): Promise<Installed> {
  if (certificates.every(({ body }) => body.dependencies === undefined)) return { problem: 'nothing asks for them' }
  return dependenciesOf(files.packageFolder, files.packageJson, {
    read: (path) => readFile(path, 'utf8').catch(() => null),
    digest: (folder) => digestOfFolder(folder),
  })
}

/** In words, why a certificate does not count under these rules; null where it does. */
export function unfit(body: CertificateBody, rules: ProofRules, installed: Installed): string | null {
  return unfitLevel(body, rules) ?? unfitAge(body, rules, Date.now()) ?? unfitDependencies(body, installed)
}

function unfitLevel({ level }: CertificateBody, { minLevel }: ProofRules): string | null {
  if (minLevel === undefined || CERTIFICATE_LEVELS.indexOf(level) >= CERTIFICATE_LEVELS.indexOf(minLevel)) return null
  return `a certificate is of level ${level}, and certificates.min_level asks for ${minLevel}`
}

function unfitAge({ date }: CertificateBody, { maxAgeDays }: ProofRules, nowMs: number): string | null {
  if (maxAgeDays === undefined) return null
  const asked = `certificates.max_age asks for at most ${maxAgeDays} days`
  const madeMs = /^\d{4}-\d{2}-\d{2}$/.test(date ?? '') ? Date.parse(`${date}T00:00:00Z`) : Number.NaN
  if (Number.isNaN(madeMs)) return `a certificate does not say on which day it was made, and ${asked}`
  // Of a day that has begun elsewhere already, but of none after that.
  if (madeMs > nowMs + DAY_MS) return `a certificate is of ${date}, which is still to come, and ${asked}`
  if (nowMs < madeMs + (maxAgeDays + 1) * DAY_MS) return null
  return `a certificate is of ${date}, and ${asked}`
}

function unfitDependencies({ dependencies }: CertificateBody, installed: Installed): string | null {
  if (dependencies === undefined) return null
  if ('problem' in installed) {
    return `a certificate says what the plugin was tried with, and what it is loaded with is not known: ${installed.problem}`
  }
  const difference = dependencyDifference(dependencies, installed)
  return difference === null ? null : `the plugin is loaded with other packages than it was tried with: ${difference}`
}
