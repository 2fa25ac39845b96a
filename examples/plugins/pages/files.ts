/**
 * What lies in the folder: `datasets`, for this plugin alone, what it was told of each; `pages`, for a web server, a folder for
 * each role with the pages that it may see.
 */
import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { DashboardDataset, DashboardDatasetId } from '@sluice/sdk'

export interface KeptDataset {
  readonly dataset: DashboardDataset
  /** Whose folders have its page. */
  readonly roles: readonly string[]
}

/** Of the dataset, in every name: stable, and it says nothing of the tenant. */
export function slugOf({ productId, variant }: DashboardDatasetId): string {
  return createHash('sha256')
    .update(JSON.stringify([productId, variant]))
    .digest('hex')
    .slice(0, 20)
}

/** `sluice:acme:team:svc-viewers` as it is; of other letters the bytes, so that no two roles share a folder. */
export function folderOf(role: string): string {
  return Buffer.from(role)
    .toString('latin1')
    .replace(/[^A-Za-z0-9_:-]/g, (letter) => `=${letter.charCodeAt(0).toString(16).padStart(2, '0')}`)
}

export class PageFiles {
  readonly #datasets: string
  readonly #pages: string

  constructor(folder: string) {
    this.#datasets = join(folder, 'datasets')
    this.#pages = join(folder, 'pages')
  }

  /** Makes what is not there yet. Repeatable. */
  async prepare(): Promise<void> {
    await mkdir(this.#datasets, { recursive: true })
    await chmod(this.#datasets, 0o700)
    await mkdir(this.#pages, { recursive: true })
  }

  async kept(): Promise<readonly KeptDataset[]> {
    const names = (await readdir(this.#datasets)).filter((name) => name.endsWith('.json'))
    const texts = await Promise.all(names.map((name) => readFile(join(this.#datasets, name), 'utf8')))
    return texts.map((text) => JSON.parse(text) as KeptDataset)
  }

  /** It holds a password, so that nobody else may read it. */
  async keep(kept: KeptDataset): Promise<void> {
    await replace(join(this.#datasets, `${slugOf(kept.dataset)}.json`), JSON.stringify(kept), 0o600)
  }

  async forget(dataset: DashboardDatasetId): Promise<void> {
    await rm(join(this.#datasets, `${slugOf(dataset)}.json`), { force: true })
  }

  async write({ dataset, roles }: KeptDataset, page: string): Promise<void> {
    for (const role of roles) {
      const path = join(this.#pages, folderOf(role), `${slugOf(dataset)}.html`)
      await mkdir(dirname(path), { recursive: true })
      await replace(path, page, 0o644)
    }
  }

  /** From all folders, whoever wrote it there. */
  async withdraw(dataset: DashboardDatasetId): Promise<void> {
    for (const folder of await readdir(this.#pages)) {
      await rm(join(this.#pages, folder, `${slugOf(dataset)}.html`), { force: true })
    }
  }
}

/** Whole or not at all: whoever reads meanwhile has the former text. */
async function replace(path: string, text: string, mode: number): Promise<void> {
  await writeFile(`${path}.new`, text, { mode })
  await rename(`${path}.new`, path)
}
