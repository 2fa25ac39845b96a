/** Versity S3 Gateway over a folder: an S3 server that is small, maintained, and built from its sources by Go. */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed } from '../cache.ts'
import { installGoProgram } from '../go.ts'
import { machineVersion } from '../machine-version.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '1.8.0'
const MODULE = `github.com/versity/versitygw/cmd/versitygw@v${VERSION}`
const READY_MS = 60_000

export const versitygw: ServerKind = {
  name: 'Versity S3 Gateway',
  variable: 'SLUICE_TEST_S3_URL',
  prepare: installedVersitygw,
  version: () => machineVersion('go', ['version']),
  async start(folder) {
    const login = { port: await freePort(), key: 'sluice', secret: randomBytes(18).toString('base64url') }
    const running = await startVersitygw(folder, login)
    return { env: addressOf(login), stop: () => running.stop() }
  },
}

export interface VersitygwLogin {
  readonly port: number
  readonly key: string
  readonly secret: string
}

export const addressOf = ({ port, key, secret }: VersitygwLogin) => ({
  SLUICE_TEST_S3_URL: `http://127.0.0.1:${port}`,
  SLUICE_TEST_S3_KEY: key,
  SLUICE_TEST_S3_SECRET: secret,
})

/** What the folder holds from an earlier start is there again. */
export async function startVersitygw(folder: string, { port, key, secret }: VersitygwLogin): Promise<NativeProcess> {
  const binaries = await installedVersitygw()
  const [root, sidecar] = [join(folder, 'objects'), join(folder, 'attributes')]
  for (const dir of [root, sidecar]) await mkdir(dir, { recursive: true })
  return startNative({
    name: 'versitygw',
    command: join(binaries, 'versitygw'),
    args: ['--port', `127.0.0.1:${port}`, '--region', 'us-east-1', 'posix', '--sidecar', sidecar, root],
    env: { PATH: process.env['PATH'], ROOT_ACCESS_KEY: key, ROOT_SECRET_KEY: secret },
    logFile: join(folder, 'log'),
    // Without a signature it refuses, which only a server that is up does.
    ready: async () => (await fetch(`http://127.0.0.1:${port}`)).status === 403,
    readyTimeoutMs: READY_MS,
  })
}

function installedVersitygw(): Promise<string> {
  return installed(`versitygw-${VERSION}`, (folder, signal) => installGoProgram(MODULE, folder, signal))
}

export default versitygw
