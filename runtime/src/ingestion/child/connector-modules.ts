import { flushCompileCache } from 'node:module'
import type { ConnectorPlugin } from '@sluice/sdk'

interface ConnectorModule {
  readonly default: ConnectorPlugin
  /** Loads what `open` needs, where the module has put that off: this process needs it, and soon has no way to it. */
  readonly load?: () => Promise<unknown>
}

/** Connectors that this process has loaded. A load costs as much as the rest of its start, so one that nobody asks for is not. */
export class ConnectorModules {
  readonly #loaded = new Map<string, ConnectorPlugin>()

  /** Repeatable. To be called before the walls are up. */
  async load(url: string): Promise<ConnectorPlugin> {
    const known = this.#loaded.get(url)
    if (known !== undefined) return known
    const { default: plugin, load } = (await import(url)) as ConnectorModule
    if (typeof load === 'function') await load()
    this.#loaded.set(url, plugin)
    // Now, because a child that is killed writes nothing, and behind the walls none can.
    flushCompileCache()
    return plugin
  }
}
