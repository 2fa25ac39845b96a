/** Codes of webhooks of products' changes. Part of the one table in `codes.ts`. */

export const WEBHOOK_CODES = {
  webhook_not_found: { status: 404, title: 'No such webhook', remedy: 'Check the id; the list of webhooks has it.' },
  webhook_owner_required: {
    status: 403,
    title: 'For the maker of the webhook',
    remedy: 'Ask whoever made it, or an administrator.',
  },
  webhook_key_unusable: {
    status: 422,
    title: 'Application key unusable for a webhook',
    remedy: 'Make a key whose operations have read.',
  },
  invalid_webhook_address: {
    status: 400,
    title: 'Invalid address of a webhook',
    remedy: 'Write a whole https:// address, without a user or a password.',
  },
  too_many_webhooks: {
    status: 409,
    title: 'Too many webhooks',
    remedy: 'Remove webhooks that nobody listens at any more.',
  },
  webhook_state_conflict: {
    status: 409,
    title: 'Webhook in another state',
    remedy: 'Resume one that is paused; deliver again with one that has failed; make another where it has ended.',
  },
  // In the state of a webhook, and its dead letters
  receiver_refused: {
    status: 503,
    title: 'Receiver refuses',
    remedy: 'Look at who listens there, then deliver again.',
  },
  receiver_unreachable: {
    status: 503,
    title: 'Receiver does not answer',
    remedy: 'Look at who listens there, then deliver again.',
  },
  webhook_gone: {
    status: 410,
    title: 'Receiver wants no more',
    remedy: 'It has answered 410. Make another webhook where it wants changes again.',
  },
  webhook_key_ended: {
    status: 403,
    title: 'Application key of the webhook gone',
    remedy: 'Make a key and a webhook with it.',
  },
  webhook_row_too_large: {
    status: 422,
    title: 'Row too large for a delivery',
    remedy: 'Raise webhooks.batch_kilobytes, or follow the changes as a stream.',
  },
} as const
