/** Writes a run's reports into a folder, and of a whole level a certificate beside them. */
import { mkdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  CERTIFICATE_SUFFIX,
  type Certificate,
  type ConnectorPlugin,
  keyName,
  type ServingPlugin,
  signCertificate,
} from '@sluice/sdk'
import { dependenciesOfPackage, digestOfPackage, packageOf } from './plugin-package.ts'
import { certificateBody } from './proof.ts'
import { jsonReport, junitReport } from './report.ts'
import { badge } from './report-badge.ts'
import { htmlReport } from './report-html.ts'
import type { RunRecord } from './run-record.ts'
import { openSigningKey } from './signing-key.ts'

export interface ReportPlace {
  readonly folder: string
  readonly keyFile: string
  /** Who runs it, in his own words. */
  readonly signer?: string | undefined
}

/** What a certificate is to be made of. */
export interface Certified {
  readonly plugin: ServingPlugin | ConnectorPlugin
  readonly modulePath: string
}

/** A certificate, or why there is none. */
type Made = { readonly certificate: Certificate; readonly isNewKey: boolean; readonly gaps: readonly string[] } | string

/** Lines for whoever runs it: where what is. `certified` says why where no certificate is to be made. */
export async function writeReports(
  run: RunRecord,
  certified: Certified | string,
  place: ReportPlace,
): Promise<readonly string[]> {
  // In one go: below /proc the way that does not wait never ends.
  mkdirSync(place.folder, { recursive: true })
  const made = typeof certified === 'string' ? certified : await makeCertificate(run, certified, place)
  const lines = [`reports: ${join(place.folder, 'conformance.{json,xml,html,svg}')}`]
  if (typeof made === 'string') {
    await writeTexts(run, place)
    // One of a former run would say what no longer holds.
    if (typeof certified !== 'string') await rm(join(place.folder, certificateName(certified.plugin)), { force: true })
    return [...lines, `no certificate: ${made}`]
  }
  const { certificate, isNewKey, gaps } = made
  const { publicKey, body } = certificate
  const key = { name: keyName(publicKey), publicKey, ...(body.signer === undefined ? {} : { signer: body.signer }) }
  await writeTexts({ ...run, key }, place)
  const file = join(place.folder, certificateName((certified as Certified).plugin))
  await writeFile(file, `${JSON.stringify(certificate, null, 2)}\n`)
  return [
    ...(isNewKey ? [`a new key was made: ${place.keyFile}`] : []),
    ...lines,
    `certificate: ${file}`,
    ...gaps,
    `signed by the key ${publicKey} (${key.name})`,
  ]
}

async function writeTexts(run: RunRecord, { folder }: ReportPlace): Promise<void> {
  const reports = { json: jsonReport(run), xml: junitReport(run), html: htmlReport(run), svg: badge(run) }
  for (const [ending, text] of Object.entries(reports)) await writeFile(join(folder, `conformance.${ending}`), text)
}

/** The name of its file. */
export function certificateName({ type, name }: Pick<ServingPlugin | ConnectorPlugin, 'type' | 'name'>): string {
  return `${type}-${name}`.replaceAll(/[^a-z0-9_-]/gi, '_') + CERTIFICATE_SUFFIX
}

async function makeCertificate(run: RunRecord, { plugin, modulePath }: Certified, place: ReportPlace): Promise<Made> {
  const from = await packageOf(modulePath)
  if (from === null) return 'no package.json with a name and a version stands above the plugin'
  const proved = run.capabilities?.on ?? []
  if (proved.length === 0) return 'nothing is proved while a check fails that every plugin has to pass'
  const dependencies = await dependenciesOfPackage(from.folder)
  const key = await openSigningKey(place.keyFile)
  const body = certificateBody({
    plugin,
    package: from,
    sha256: await digestOfPackage(from.folder, modulePath),
    run,
    proved,
    ...('problem' in dependencies ? {} : { dependencies }),
    ...(place.signer === undefined ? {} : { signer: place.signer }),
  })
  const gaps =
    'problem' in dependencies ? [`it does not say what the plugin was tried with: ${dependencies.problem}`] : []
  return { certificate: signCertificate(body, key.privateKeyPem), isNewKey: key.isNew, gaps }
}
