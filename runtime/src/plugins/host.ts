import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Host, LakeEngine, Logger } from '@sluice/sdk'
import type { PluginMetrics } from './plugin-metrics.ts'

export interface HostServices {
  readonly logger: Logger
  readonly faultPoint: (name: string) => Promise<void>
  readonly dataDirectory: string
  /** In a further process of a runtime: the folder's locks are the first one's, which lives. */
  readonly isBeside?: boolean
  /** Not there for what is opened before the lake. */
  readonly lakeEngine?: LakeEngine
}

/**
 * The host of one plugin: its own folder and its own name in every log line. The caller holds the lock of the data folder.
 */
export async function createHost(
  pluginName: string,
  services: HostServices,
  metrics: PluginMetrics,
): Promise<Host & AsyncDisposable> {
  const stateDirectory = join(services.dataDirectory, 'stores', pluginName.replaceAll(/[^a-z0-9_-]/gi, '_'))
  await mkdir(stateDirectory, { recursive: true, mode: 0o700 })
  if (services.isBeside !== true) await removeLocks(stateDirectory)
  const clock = createClock(services.logger)
  return {
    clock,
    logger: services.logger,
    metrics: metrics.of(pluginName),
    randomBytes: (count) => randomBytes(count),
    faultPoint: services.faultPoint,
    stateDirectory,
    ...(services.lakeEngine === undefined ? {} : { lakeEngine: services.lakeEngine }),
    async [Symbol.asyncDispose]() {
      clock.stop()
    },
  }
}

/**
 * The data folder is this process's, by the kernel's lock, so that whoever left a lock file in a plugin's folder has ended,
 * whatever its text says: one that was killed, and that nobody has waited for, still goes by its process id.
 */
async function removeLocks(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true })
  for (const name of names.filter((found) => found.endsWith('.lock'))) await rm(join(folder, name), { force: true })
}

/** Wall-clock time; timers do not keep the process alive and stop with the plugin. */
export function createClock(logger: Logger): Clock & { stop(): void } {
  const timers = new Set<NodeJS.Timeout>()
  return {
    nowMs: () => Date.now(),
    every(everyMs, run) {
      let running = false
      const timer = setInterval(async () => {
        if (running) return
        running = true
        try {
          await run()
        } catch (error) {
          logger.error('a scheduled task of a plugin failed', { error: (error as Error).message })
        } finally {
          running = false
        }
      }, everyMs)
      timer.unref()
      timers.add(timer)
      return () => {
        clearInterval(timer)
        timers.delete(timer)
      }
    },
    stop() {
      for (const timer of timers) clearInterval(timer)
      timers.clear()
    },
  }
}
