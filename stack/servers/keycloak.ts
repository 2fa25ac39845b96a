/** Keycloak with the realm of deploy/, in memory: what is done in it ends with it. */
import { copyFile, mkdir, readFile, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import type { ContainerSpec } from '../containers.ts'
import { javaCommand, javaVersion } from '../java.ts'
import { mavenFile } from '../maven.ts'
import { type NativeProcess, startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'
import { containerProcess } from '../server-process.ts'

const VERSION = '26.7.3'
const MIN_JAVA = 17
const MAX_JAVA = 21
const READY_MS = 240_000
const REALM = join(import.meta.dirname, '../../deploy/keycloak/sluice-realm.json')
const ADMIN = { user: 'operator', password: 'for-tests-alone' } as const

const JVM_FLAGS = ['-Xmx400m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-XX:MaxMetaspaceSize=300m']

const OPTIONS = ['--import-realm', '--cache=local', '--http-enabled=true']

const container: ContainerSpec = {
  service: 'keycloak',
  command: ['start', '--db=dev-mem', ...OPTIONS],
  async env(host, port) {
    if (host !== '127.0.0.1') throw new Error('the runtime takes an issuer without https from this machine alone')
    return { ...(await environment()), KC_HOSTNAME: `http://${host}:${port}` }
  },
  port: 8080,
  files: { '/opt/keycloak/data/import/sluice-realm.json': REALM },
  address: (host, port, id) => addressOf(`${host}:${port}`, containerProcess(id)),
  ready: (address) => answers(`http://${new URL(address['SLUICE_TEST_KEYCLOAK_URL'] ?? '').host}`),
}

export const keycloak: ServerKind = {
  name: 'Keycloak',
  variable: 'SLUICE_TEST_KEYCLOAK_URL',
  container,
  prepare: installedKeycloak,
  version: () => javaVersion(MIN_JAVA, MAX_JAVA),
  async start(folder) {
    const running = await startKeycloak(folder)
    return { env: addressOf(new URL(running.url).host, String(running.pid)), stop: () => running.stop() }
  },
}

/** A test ends its process. */
function addressOf(host: string, process: string) {
  return {
    SLUICE_TEST_KEYCLOAK_URL: `http://${ADMIN.user}:${ADMIN.password}@${host}`,
    SLUICE_TEST_KEYCLOAK_PROCESS: process,
  }
}

const answers = async (url: string): Promise<boolean> =>
  (await fetch(`${url}/realms/sluice/.well-known/openid-configuration`)).ok

async function startKeycloak(folder: string): Promise<NativeProcess & { readonly url: string }> {
  const [home, java] = await Promise.all([installedKeycloak(), javaCommand(MIN_JAVA, MAX_JAVA)])
  const imports = join(folder, 'data/import')
  await mkdir(imports, { recursive: true })
  for (const name of ['providers', 'themes', 'conf']) await mkdir(join(folder, name))
  // Where it looks for what was built.
  await symlink(join(home, 'lib'), join(folder, 'lib'))
  await copyFile(REALM, join(imports, 'sluice-realm.json'))
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const listening = [`--http-port=${port}`, '--http-host=127.0.0.1', `--hostname=${url}`]
  const running = await startNative({
    name: 'Keycloak',
    command: java,
    args: [...JVM_FLAGS, ...main(home, folder), 'start', '--optimized', ...OPTIONS, ...listening],
    env: { ...process.env, ...(await environment()) },
    logFile: join(folder, 'keycloak.log'),
    ready: () => answers(url),
    readyTimeoutMs: READY_MS,
  })
  return { ...running, url }
}

/** The administrator, and all that the realm's file leaves to the environment: addresses and secrets of other servers. */
async function environment(): Promise<Readonly<Record<string, string>>> {
  const names = (await readFile(REALM, 'utf8')).matchAll(/\$\{(\w+)\}/g)
  return {
    KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.user,
    KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
    ...Object.fromEntries(Array.from(names, ([, name]) => [name, 'http://127.0.0.1:3000'])),
  }
}

/** As `kc.sh` starts it, with a folder for data that is not the program's own. */
function main(home: string, folder: string): readonly string[] {
  return [
    `-Dkc.home.dir=${folder}`,
    `-Djboss.server.config.dir=${join(folder, 'conf')}`,
    '-Djava.util.logging.manager=org.jboss.logmanager.LogManager',
    '--add-opens=java.base/java.util=ALL-UNNAMED',
    '--add-opens=java.base/java.util.concurrent=ALL-UNNAMED',
    '--add-opens=java.base/java.security=ALL-UNNAMED',
    '--add-opens=java.base/java.lang=ALL-UNNAMED',
    '-Djava.util.concurrent.ForkJoinPool.common.threadFactory=io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory',
    ...['-cp', join(home, 'lib/quarkus-run.jar'), 'io.quarkus.bootstrap.runner.QuarkusEntryPoint'],
  ]
}

/** Built once, so that a start takes seconds. */
function installedKeycloak(): Promise<string> {
  return installed(`keycloak-${VERSION}`, async (folder, signal) => {
    const archive = await mavenFile(`org.keycloak:keycloak-quarkus-dist:${VERSION}:tar.gz`, folder, signal)
    await runTool('tar', ['-xzf', archive, '-C', folder, '--strip-components=1'])
    await rm(archive)
    const java = await javaCommand(MIN_JAVA, MAX_JAVA)
    const env = { ...process.env, JAVA: java, JAVA_OPTS: '-Xmx600m' }
    await runTool(join(folder, 'bin/kc.sh'), ['build', '--db=dev-mem'], { env, signal })
  })
}

export default keycloak
