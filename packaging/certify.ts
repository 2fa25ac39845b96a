/**
 * `npm run certify [-- PLUGIN…]`: proves the plugins of this repository, each in a process of its own and with the
 * servers that it needs, and keeps their certificates in docs/certificates, which the matrix of stores and capabilities
 * is made from. With `--check` nothing is run: it ends with 1 where a certificate is not of the files as they are now,
 * which a release asks.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CERTIFICATE_SUFFIX } from '@sluice/sdk'
import type { StackServer } from '../stack/server.ts'
import { CERTIFIED, type Certified, certifiedName } from './certified.ts'
import { CERTIFICATES, keptName, staleCertificates } from './kept-certificates.ts'

const ROOT = join(import.meta.dirname, '..')
const LAUNCHER = join(ROOT, 'conformance-tests/bin/sluice-conformance.js')

// Interrupted: the proof ends, its servers are ended as always, and no other is begun.
const interrupted = new AbortController()
let proving: ChildProcess | null = null

/** Whether a certificate was made. */
async function certify(one: Certified): Promise<boolean> {
  const { plugin, level, servers = [], fixture } = one
  const folder = await mkdtemp(join(tmpdir(), 'sluice-certify-'))
  const running: StackServer[] = []
  try {
    for (const [index, kind] of servers.entries()) {
      if (process.env[kind.variable] === undefined) running.push(await kind.start(join(folder, String(index))))
    }
    const report = join(folder, 'report')
    const env = Object.assign({ ...process.env }, ...running.map((server) => server.env))
    const args = [LAUNCHER, plugin, '--level', level, '--report', report]
    const child = spawn(process.execPath, [...args, ...(fixture ? ['--fixture', fixture] : [])], {
      ...{ cwd: ROOT, stdio: 'inherit', env },
    })
    proving = child
    await new Promise((resolve) => child.once('exit', resolve))
    const made = (await readdir(report).catch(() => [])).filter((name) => name.endsWith(CERTIFICATE_SUFFIX))
    for (const name of made) await copyFile(join(report, name), join(CERTIFICATES, keptName(name, one)))
    return made.length > 0
  } finally {
    for (const server of running.reverse()) await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

function chosen(names: readonly string[]): readonly Certified[] {
  const unknown = names.filter((name) => !CERTIFIED.some((one) => certifiedName(one) === name))
  if (unknown.length > 0) throw new Error(`no certificate is kept of ${unknown.join(', ')}`)
  const wanted = CERTIFIED.filter((one) => names.length === 0 || names.includes(certifiedName(one)))
  return wanted.filter(({ whereGiven }) => whereGiven === undefined || process.env[whereGiven] !== undefined)
}

async function check(): Promise<void> {
  const stale = await staleCertificates()
  for (const line of stale) console.error(line)
  if (stale.length === 0)
    console.log(`docs/certificates: ${CERTIFIED.length} certificates are of the files as they are`)
  else process.exitCode = 1
}

async function main(args: readonly string[]): Promise<void> {
  if (args.includes('--check')) return check()
  await mkdir(CERTIFICATES, { recursive: true })
  const failed: string[] = []
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      interrupted.abort()
      proving?.kill(signal)
    })
  }
  for (const one of chosen(args))
    if (interrupted.signal.aborted || !(await certify(one))) failed.push(certifiedName(one))
  if (failed.length === 0) return
  console.error(`no certificate was made of ${failed.join(', ')}`)
  process.exitCode = 1
}

await main(process.argv.slice(2))
