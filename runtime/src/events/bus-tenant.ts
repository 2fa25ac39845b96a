import type { BusTenant } from '@sluice/sdk'
import { changeTopicPrefix } from './change-message.ts'
import { topicPrefix } from './envelope.ts'

/** What a bus is told of a tenant: where everything of it lies. */
export const busTenant = (slug: string): BusTenant => ({
  slug,
  events: topicPrefix(slug),
  changes: changeTopicPrefix(slug),
})
