import type { ContainerSpec } from './containers.ts'

/** What a suite asks for, and is given: addresses in `SLUICE_TEST_…` variables. */
export interface StackServer {
  readonly env: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/**
 * How one real server is brought up. `variable` names the environment variable of its address: where that is set, the
 * server is somebody else's, and neither started nor ended here.
 */
export interface ServerKind {
  readonly name: string
  readonly variable: string
  /** Used instead of `start` where a Docker engine answers. */
  readonly container?: ContainerSpec
  /** Of what it takes from the machine and our sources do not name: another version is another server. */
  version?(): Promise<string>
  /** Downloads and builds; done while the first suites run. Repeatable. */
  prepare?(): Promise<unknown>
  /** `folder` is empty, and removed after the server has been stopped. */
  start(folder: string): Promise<StackServer>
}
