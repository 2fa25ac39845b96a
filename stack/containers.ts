/** Servers as containers, where a Docker engine answers: the images that are deployed, and the same tests. */
import { GenericContainer, getContainerRuntimeClient } from 'testcontainers'
import { composeService } from './compose.ts'
import { waitUntilReady } from './native-process.ts'
import type { StackServer } from './server.ts'

const READY_MS = 60_000

export interface ContainerSpec {
  /** The service of `docker-compose.yml` that has the image. */
  readonly service: string
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly port: number
  /** What tests are given. */
  address(host: string, port: number): Readonly<Record<string, string>>
  /** A real request; it may throw while the server is not up. */
  ready(address: Readonly<Record<string, string>>): Promise<boolean>
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
  const container = await new GenericContainer((await composeService(spec.service)).image)
    .withCommand([...spec.command])
    .withEnvironment({ ...spec.env })
    .withExposedPorts(spec.port)
    .withStartupTimeout(READY_MS)
    .start()
  const env = spec.address(container.getHost(), container.getMappedPort(spec.port))
  try {
    const name = `the container of ${spec.service}`
    await waitUntilReady({ name, ready: () => spec.ready(env), readyTimeoutMs: READY_MS })
  } catch (error) {
    await container.stop()
    throw error
  }
  return { env, stop: () => container.stop().then(() => undefined) }
}
