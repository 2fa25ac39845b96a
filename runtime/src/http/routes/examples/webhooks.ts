import type { OperationExamples } from '../../example.ts'
import { at, PRODUCT, PRODUCT_ID, page } from './world.ts'

const webhook = {
  id: 'whk_9c1e2f3a4b5c6d7e8f901a2b',
  product_id: PRODUCT_ID,
  name: 'shop search',
  host: 'hooks.example.com',
  application_key: 'key_3f0a9d1c7b2e4f5a6b7c8d9e',
  state: 'active',
  reason: null,
  epoch: 12,
  sequence: 0,
  attempts: 0,
  next_at: null,
  status: null,
  error_code: null,
  delivered_at: null,
  created_by: 'dora',
  created_at: at('09:50:00'),
}
const delivered = { ...webhook, epoch: 14, sequence: 3, status: 204, delivered_at: at('10:12:00') }
const params = { product_id: PRODUCT, webhook_id: webhook.id }

export const WEBHOOK_EXAMPLES: OperationExamples = {
  createWebhook: {
    params: { product_id: PRODUCT },
    body: { name: webhook.name, url: 'https://hooks.example.com/customers', application_key: webhook.application_key },
    answers: { 201: { ...webhook, signing_key: 'whsec_<key>' } },
  },
  listWebhooks: { params: { product_id: PRODUCT }, query: { limit: 100 }, answers: { 200: page(delivered) } },
  getWebhook: { params, answers: { 200: delivered } },
  deleteWebhook: { params },
  pauseWebhook: { params, answers: { 200: { ...delivered, state: 'paused' } } },
  resumeWebhook: { params, answers: { 200: delivered } },
  redeliverWebhook: { params, answers: { 200: { ...delivered, status: 503, error_code: 'receiver_refused' } } },
  testWebhook: { params, answers: { 200: { ok: true, status: 204, error_code: null } } },
  listDeadLetters: {
    params,
    query: { limit: 100 },
    answers: {
      200: page({
        id: 'ltr_0b1c2d3e4f5a6b7c8d9e0f1a',
        delivery: 'msg_5d41402abc4b2a76b9719d91',
        sequence: 4,
        epoch: 15,
        attempts: 30,
        status: 503,
        error_code: 'receiver_refused',
        failing_since: at('10:20:00'),
        created_at: at('20:41:00'),
        redelivered_at: null,
      }),
    },
  },
}
