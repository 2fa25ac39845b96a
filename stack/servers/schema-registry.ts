/** A registry of schemas, Apicurio's, which speaks as Confluent's does under a path of its own. It keeps them in memory. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../runtime/src/database/free-port.ts'
import { installed, runTool } from '../cache.ts'
import { javaCommand, javaVersion } from '../java.ts'
import { mavenFile } from '../maven.ts'
import { startNative } from '../native-process.ts'
import type { ServerKind } from '../server.ts'

const VERSION = '3.3.3'
const MIN_JAVA = 21
const READY_MS = 180_000

const schemaRegistry: ServerKind = {
  name: 'Apicurio Registry',
  variable: 'SLUICE_TEST_SCHEMA_REGISTRY_URL',
  prepare: program,
  version: () => javaVersion(MIN_JAVA),
  async start(folder) {
    const [java, app] = await Promise.all([javaCommand(MIN_JAVA), program()])
    const [port, managed] = [await freePort(), await freePort()]
    await mkdir(folder, { recursive: true })
    const url = `http://127.0.0.1:${port}/apis/ccompat/v7`
    const running = await startNative({
      name: 'schema-registry',
      command: java,
      args: [
        ...['-Xmx256m', '-Dquarkus.http.host=127.0.0.1', `-Dquarkus.http.port=${port}`],
        // What it tells of itself listens apart, at one port for all of them.
        ...['-Dquarkus.management.host=127.0.0.1', `-Dquarkus.management.port=${managed}`],
        ...['-jar', join(app, 'quarkus-run.jar')],
      ],
      logFile: join(folder, 'schema-registry.log'),
      ready: async () => (await fetch(`${url}/subjects`)).ok,
      readyTimeoutMs: READY_MS,
    })
    return { env: { SLUICE_TEST_SCHEMA_REGISTRY_URL: url }, stop: () => running.stop() }
  },
}

function program(): Promise<string> {
  return installed(`apicurio-registry-${VERSION}`, async (folder, signal) => {
    const file = await mavenFile(`io.apicurio:apicurio-registry-app:${VERSION}:tar.gz:all`, folder, signal)
    await runTool('tar', ['-xzf', file.replace(/\.tar\.gz$/, '-all.tar.gz'), '-C', folder], { signal })
  })
}

export default schemaRegistry
