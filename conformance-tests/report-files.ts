/** Writes a run's reports into a folder, and of a whole level a certificate beside them. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CERTIFICATE_SUFFIX, type ConnectorPlugin, type ServingPlugin, signCertificate } from '@sluice/sdk'
import { digestOfPackage, packageOf } from './plugin-package.ts'
import { type CheckNeeds, certificateBody, provedCapabilities } from './proof.ts'
import { jsonReport, junitReport } from './report.ts'
import { badge } from './report-badge.ts'
import { htmlReport } from './report-html.ts'
import type { RunRecord } from './run-record.ts'
import { openSigningKey } from './signing-key.ts'

export interface ReportPlace {
  readonly folder: string
  readonly keyFile: string
}

/** What a certificate is to be made of. */
export interface Certified {
  readonly plugin: ServingPlugin | ConnectorPlugin
  readonly checks: readonly CheckNeeds[]
  readonly modulePath: string
}

/** Lines for whoever runs it: where what is. `certified` is null where the run was not of a whole level. */
export async function writeReports(
  run: RunRecord,
  certified: Certified | null,
  place: ReportPlace,
): Promise<readonly string[]> {
  await mkdir(place.folder, { recursive: true })
  const reports = { json: jsonReport(run), xml: junitReport(run), html: htmlReport(run), svg: badge(run) }
  for (const [ending, text] of Object.entries(reports)) {
    await writeFile(join(place.folder, `conformance.${ending}`), text)
  }
  const lines = [`reports: ${join(place.folder, 'conformance.{json,xml,html,svg}')}`]
  if (certified === null) return [...lines, 'no certificate: it is made of a whole level']
  return [...lines, ...(await writeCertificate(run, certified, place))]
}

async function writeCertificate(run: RunRecord, certified: Certified, place: ReportPlace): Promise<readonly string[]> {
  const { plugin, checks, modulePath } = certified
  const file = join(place.folder, `${plugin.type}-${plugin.name}`.replaceAll(/[^a-z0-9_-]/gi, '_') + CERTIFICATE_SUFFIX)
  const from = await packageOf(modulePath)
  const proved = provedCapabilities(plugin, run, checks)
  if (from === null || proved.length === 0) {
    // One of a former run would say what no longer holds.
    await rm(file, { force: true })
    return [
      `no certificate: ${from === null ? 'no package.json with a name and a version stands above the plugin' : 'nothing is proved while a check fails that every plugin has to pass'}`,
    ]
  }
  const key = await openSigningKey(place.keyFile)
  const body = certificateBody({
    plugin,
    package: from,
    sha256: await digestOfPackage(from.folder, modulePath),
    run,
    proved,
  })
  await writeFile(file, `${JSON.stringify(signCertificate(body, key.privateKeyPem), null, 2)}\n`)
  const made = key.isNew ? [`a new key was made: ${place.keyFile}`] : []
  return [...made, `certificate: ${file}`, `signed by the key ${key.publicKey}`]
}
