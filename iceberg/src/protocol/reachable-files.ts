import { LRUCache } from 'lru-cache'
import type { TableMetadata } from '../format/metadata.ts'
import { Manifests } from '../manifests.ts'
import type { TableFiles } from '../table-files.ts'

const MAX_CACHED_PATHS = 200_000

/** Which files the snapshots of some metadata lead to: asked for many files of one table, one after the other. */
export class ReachableFiles {
  readonly #manifests = new Manifests()
  readonly #cache = new LRUCache<string, ReadonlySet<string>>({
    maxSize: MAX_CACHED_PATHS,
    sizeCalculation: (paths) => paths.size + 1,
  })

  /** @param metadata may hold fewer snapshots than its file; the file itself is not among what it leads to then */
  async has(files: TableFiles, metadata: TableMetadata, path: string, signal: AbortSignal): Promise<boolean> {
    const key = JSON.stringify([files.root, metadata.snapshots.map((snapshot) => String(snapshot['snapshot-id']))])
    const known = this.#cache.get(key) ?? (await this.#pathsOf(files, metadata, signal))
    this.#cache.set(key, known)
    return known.has(path)
  }

  async #pathsOf(files: TableFiles, metadata: TableMetadata, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const paths = new Set<string>()
    const seen = new Set<string>()
    for (const { 'manifest-list': list } of metadata.snapshots) {
      paths.add(files.pathOf(list))
      for (const manifest of await this.#manifests.readList(files, list, signal)) {
        if (seen.has(manifest.manifest_path)) continue
        seen.add(manifest.manifest_path)
        paths.add(files.pathOf(manifest.manifest_path))
        for (const entry of await this.#manifests.readEntries(files, manifest, signal)) {
          if (entry.status !== 'deleted') paths.add(files.pathOf(entry.file.uri))
        }
      }
    }
    return paths
  }
}
