/** What a server runs in, for tests that make it hang or kill it: natively a process group, else a container. */
import { getContainerRuntimeClient } from 'testcontainers'

const CONTAINER = 'container:'

/** How a variable names the container. A process group is named by its number. */
export const containerProcess = (id: string): string => `${CONTAINER}${id}`

export interface ServerProcess {
  signal(name: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): Promise<void>
}

/** Null where the variable is not set: the server is somebody else's. */
export function serverProcess(variable: string): ServerProcess | null {
  const named = process.env[variable]
  if (!named) return null
  if (!named.startsWith(CONTAINER)) {
    return {
      async signal(name) {
        process.kill(-Number(named), name)
      },
    }
  }
  return {
    // By the engine: its processes may be another machine's, or another user's.
    async signal(signal) {
      const { container } = await getContainerRuntimeClient()
      await container.getById(named.slice(CONTAINER.length)).kill({ signal })
    },
  }
}
