select
    payments.id as payment_id,
    payments.order_id,
    payments.payment_method,
    cast(payments.amount_cents as decimal(18, 2)) * 0.01 as amount
from {{ source('shop', 'payments') }}
