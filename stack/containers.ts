/**
 * Servers as containers, where a Docker engine answers: the images that are deployed, and the same tests.
 *
 * Native in any case are the servers that are not deployed (Cassandra, Redis itself, Versity S3 Gateway), a cluster of
 * Redis, whose nodes tell each other and their clients where they are, Trino, which reads the lake's files of this machine
 * and asks a runtime on its loopback address whom it lets in, Superset, whose image is built from `deploy/superset` and
 * which is set up for the runtime beside it, and all that tests end, cut off and start again.
 */
import { GenericContainer, getContainerRuntimeClient, type PortWithOptionalBinding } from 'testcontainers'
import { freePort } from '../runtime/src/database/free-port.ts'
import { composeService } from './compose.ts'
import { waitUntilReady } from './native-process.ts'
import type { StackServer } from './server.ts'

/** Some prepare themselves at their first start, which natively is done once. */
const READY_MS = 240_000

type Environment = Readonly<Record<string, string>>

export interface ContainerSpec {
  /** The service of `docker-compose.yml` that has the image. */
  readonly service: string
  /** Empty: what the image starts by itself. */
  readonly command: readonly string[]
  /** A function for servers that tell their clients where they are: its port is chosen before it starts. */
  readonly env: Environment | ((host: string, port: number) => Promise<Environment>)
  readonly port: number
  /** Files of this machine by the path that they have in the container; everybody may read them there. */
  readonly files?: Readonly<Record<string, string>>
  /** What tests are given. */
  address(host: string, port: number, id: string): Environment
  /** A real request; it may throw while the server is not up. */
  ready(address: Environment): Promise<boolean>
  /** What is done in the container once it is ready; `run` throws with what a command printed that failed. */
  setUp?(run: (command: readonly string[]) => Promise<void>): Promise<void>
}

let answers: Promise<boolean> | null = null

/** Asked once. `SLUICE_TEST_CONTAINERS=never` stands for a machine without an engine. */
export function engineAnswers(): Promise<boolean> {
  answers ??=
    process.env['SLUICE_TEST_CONTAINERS'] === 'never'
      ? Promise.resolve(false)
      : getContainerRuntimeClient().then(
          () => true,
          () => false,
        )
  return answers
}

/** Throws where the image cannot be had, or the server is not ready in time; nothing is left running then. */
export async function startContainer(spec: ContainerSpec): Promise<StackServer> {
  const host = await engineHost()
  const { env, port } = await settingsOf(spec, host)
  const files = Object.entries(spec.files ?? {}).map(([target, source]) => ({ source, target, mode: 0o644 }))
  const container = await new GenericContainer((await composeService(spec.service)).image)
    .withCommand([...spec.command])
    .withEnvironment({ ...env })
    .withCopyFilesToContainer(files)
    .withExposedPorts(port)
    .withStartupTimeout(READY_MS)
    .start()
  const address = spec.address(host, container.getMappedPort(spec.port), container.getId())
  try {
    const name = `the container of ${spec.service}`
    await waitUntilReady({ name, ready: () => spec.ready(address), readyTimeoutMs: READY_MS })
    await spec.setUp?.(async (command) => {
      const { exitCode, output } = await container.exec([...command])
      if (exitCode !== 0) throw new Error(`a command in ${name} ended with ${exitCode}:\n${output}`)
    })
  } catch (error) {
    await container.stop()
    throw error
  }
  return { env: address, stop: () => container.stop().then(() => undefined) }
}

/** Where ports of containers are reached; on this machine at the address that native servers have. */
async function engineHost(): Promise<string> {
  const { host } = (await getContainerRuntimeClient()).info.containerRuntime
  return host === 'localhost' ? '127.0.0.1' : host
}

async function settingsOf(
  { env, port }: ContainerSpec,
  host: string,
): Promise<{ readonly env: Environment; readonly port: PortWithOptionalBinding }> {
  if (typeof env !== 'function') return { env, port }
  const reached = await freePort()
  return { env: await env(host, reached), port: { container: port, host: reached } }
}
