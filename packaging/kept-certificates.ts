/** The certificates in docs/certificates, beside the plugins that they are of. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  CERTIFICATE_SUFFIX,
  type CertificateBody,
  type ConnectorPlugin,
  dependencyDifference,
  readCertificate,
  type ServingPlugin,
} from '@sluice/sdk'
import { dependenciesOfPackage, digestOfPackage, packageOf } from '../conformance-tests/plugin-package.ts'
import { certificateName } from '../conformance-tests/report-files.ts'
import { CERTIFIED, type Certified, certifiedName } from './certified.ts'

const ROOT = join(import.meta.dirname, '..')

export const CERTIFICATES = join(ROOT, 'docs/certificates')

/** Under which name a certificate is kept that the suite has written under that one. */
export function keptName(made: string, { on }: Certified): string {
  return on === undefined ? made : `${made.slice(0, -CERTIFICATE_SUFFIX.length)}-on-${on}${CERTIFICATE_SUFFIX}`
}

/** By the name of the file. Throws where one was changed after it was signed. */
export async function keptCertificates(): Promise<ReadonlyMap<string, CertificateBody>> {
  const names = (await readdir(CERTIFICATES)).filter((name) => name.endsWith(CERTIFICATE_SUFFIX)).sort()
  const kept = new Map<string, CertificateBody>()
  for (const name of names) {
    const read = readCertificate(await readFile(join(CERTIFICATES, name), 'utf8'))
    if ('problem' in read) throw new Error(`${name}: ${read.problem}`)
    kept.set(name, read.body)
  }
  return kept
}

export function moduleOf({ plugin }: Certified): string {
  return join(ROOT, plugin, 'index.ts')
}

export async function certifiedPlugin(one: Certified): Promise<ServingPlugin | ConnectorPlugin> {
  return ((await import(pathToFileURL(moduleOf(one)).href)) as { readonly default: ServingPlugin | ConnectorPlugin })
    .default
}

export function certificateOf(
  kept: ReadonlyMap<string, CertificateBody>,
  one: Certified,
  { type, name }: Pick<ServingPlugin | ConnectorPlugin, 'type' | 'name'>,
): CertificateBody | null {
  return kept.get(keptName(certificateName({ type, name }), one)) ?? null
}

/** In words, which certificates are missing or of other files than those that are there now. */
export async function staleCertificates(): Promise<readonly string[]> {
  const kept = await keptCertificates()
  const problems: string[] = []
  for (const one of CERTIFIED) {
    const body = certificateOf(kept, one, await certifiedPlugin(one))
    if (body === null && one.whereGiven !== undefined) continue
    const again = `npm run certify -- ${certifiedName(one)}`
    const folder = (await packageOf(moduleOf(one)))?.folder
    const digest = folder === undefined ? null : await digestOfPackage(folder, moduleOf(one))
    if (body === null) problems.push(`${certifiedName(one)} has no certificate: ${again}`)
    else if (body.package.sha256 !== digest) {
      problems.push(`${certifiedName(one)} has changed since it was certified: ${again}`)
    } else if (folder !== undefined && body.dependencies !== undefined) {
      const installed = await dependenciesOfPackage(folder)
      const why = 'problem' in installed ? installed.problem : dependencyDifference(body.dependencies, installed)
      if (why !== null) problems.push(`${certifiedName(one)} has other dependencies (${why}): ${again}`)
    }
  }
  return problems
}
