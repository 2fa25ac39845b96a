/**
 * MinIO, and its client for what is deployed beside it: both built from their sources by Go. The logins that tests
 * are given are made by the script of `docker-compose.yml`, with the policies that are deployed. The server's image has
 * the client, too.
 */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { composeService } from '../compose.ts'
import type { ContainerSpec } from '../containers.ts'
import { installGoProgram } from '../go.ts'
import { machineVersion } from '../machine-version.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const SERVER = 'v0.0.0-20260212201848-7aac2a2c5b7c'
const CLIENT = 'v0.0.0-20250313080218-cf909e1063a9'
const READY_MS = 60_000
const POLICIES = join(import.meta.dirname, '../../deploy/minio')
/** Each begins with a hyphen: the script must not let the client take it for an option. */
const secret = (): string => `-${randomBytes(18).toString('hex')}`

/** As the deployment names them. */
const LOGINS = {
  MINIO_ROOT_USER: 'administrator',
  MINIO_ROOT_PASSWORD: secret(),
  S3_ACCESS_KEY: 'sluice',
  S3_SECRET_KEY: secret(),
  LAKE_S3_ACCESS_KEY: 'sluice-engine',
  LAKE_S3_SECRET_KEY: secret(),
}

const addressOf = (url: string) => ({
  SLUICE_TEST_S3_URL: url,
  SLUICE_TEST_S3_KEY: LOGINS.S3_ACCESS_KEY,
  SLUICE_TEST_S3_SECRET: LOGINS.S3_SECRET_KEY,
  SLUICE_TEST_S3_ROOT_KEY: LOGINS.MINIO_ROOT_USER,
  SLUICE_TEST_S3_ROOT_SECRET: LOGINS.MINIO_ROOT_PASSWORD,
  SLUICE_TEST_S3_READ_KEY: LOGINS.LAKE_S3_ACCESS_KEY,
  SLUICE_TEST_S3_READ_SECRET: LOGINS.LAKE_S3_SECRET_KEY,
})

const answers = async (url: string): Promise<boolean> => (await fetch(`${url}/minio/health/ready`)).ok

const container: ContainerSpec = {
  service: 'minio',
  command: ['server', '/data'],
  env: LOGINS,
  port: 9000,
  files: Object.fromEntries(['policy.json', 'policy-readonly.json'].map((name) => [`/${name}`, join(POLICIES, name)])),
  address: (host, port) => addressOf(`http://${host}:${port}`),
  ready: (address) => answers(address['SLUICE_TEST_S3_URL'] ?? ''),
  setUp: (run) => setUp('http://127.0.0.1:9000', '', run),
}

export const minio: ServerKind = {
  name: 'MinIO',
  variable: 'SLUICE_TEST_S3_URL',
  container,
  prepare: binaries,
  version: () => machineVersion('go', ['version']),
  async start(folder) {
    const installation = await binaries()
    const port = await freePort()
    const running = await startMinio(installation, folder, port)
    const url = `http://127.0.0.1:${port}`
    const path = `${installation}:${process.env['PATH']}`
    const env = { ...LOGINS, PATH: path, HOME: folder, MC_CONFIG_DIR: join(folder, 'mc') }
    try {
      await setUp(url, POLICIES, ([command = '', ...args]) => runTool(command, args, { env }))
    } catch (error) {
      await running.stop()
      throw error
    }
    return { env: addressOf(url), stop: () => running.stop() }
  },
}

async function startMinio(installation: string, folder: string, port: number): Promise<NativeProcess> {
  const objects = join(folder, 'objects')
  await mkdir(objects, { recursive: true })
  return startNative({
    name: 'minio',
    command: join(installation, 'minio'),
    args: ['server', objects, '--address', `127.0.0.1:${port}`, '--console-address', `127.0.0.1:${await freePort()}`],
    env: { ...LOGINS, PATH: process.env['PATH'], HOME: folder },
    logFile: join(folder, 'log'),
    ready: () => answers(`http://127.0.0.1:${port}`),
    readyTimeoutMs: READY_MS,
  })
}

/** Twice, as it is run again at every start of the deployment. `policies` is the folder where the policies are. */
async function setUp(
  url: string,
  policies: string,
  run: (command: readonly string[]) => Promise<unknown>,
): Promise<void> {
  const { command } = await composeService('minio-setup')
  const script = (command[0] as string)
    .replaceAll('$$', '$')
    .replaceAll('http://minio:9000', url)
    .replaceAll(/ \/(policy\S*\.json)/g, ` ${policies}/$1`)
  for (const _ of ['first', 'again']) await run(['sh', '-euc', script])
}

function binaries(): Promise<string> {
  return installed(`minio-${SERVER.slice(-12)}-mc-${CLIENT.slice(-12)}`, async (folder, signal) => {
    for (const module of [`github.com/minio/minio@${SERVER}`, `github.com/minio/mc@${CLIENT}`]) {
      await installGoProgram(module, folder, signal)
    }
  })
}

export default minio
